"""The lab's own decisions put to the test: simulated experiments of which the truth is known."""

"""Other engines, each in a process of its own, measured in one run with ours."""

"""Many requests of one model at once: waiting, taking turns, sharing passes."""

"""The mathematics of the lab: pure functions of numbers, each with its source. Nothing here decides anything."""

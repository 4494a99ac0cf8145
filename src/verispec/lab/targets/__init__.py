"""Servers that the lab can measure: a profile says how an engine is run and read, a target what runs."""

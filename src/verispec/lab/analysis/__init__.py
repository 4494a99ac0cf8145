"""What a log of lanes says when it is asked properly: its noise, its comparisons, a verdict per candidate."""

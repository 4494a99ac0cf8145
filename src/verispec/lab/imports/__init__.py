"""Logs of other labs, read into lanes that can be analysed. What such a log does not record stays unknown."""

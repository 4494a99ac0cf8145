"""Requests, rounds and the public model: from a prompt to proven text."""

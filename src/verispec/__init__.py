"""Speculative decoding whose output is, token for token, what the model would have written alone."""

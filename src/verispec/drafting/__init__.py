"""Drafters: proposals of tokens that the target may or may not accept. One file a strategy."""

"""Backends: the adapter contract and its implementations."""

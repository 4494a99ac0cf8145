"""A whole experiment: smoke, screen, confirmation, repeat; lanes in balanced order; decided block by block."""

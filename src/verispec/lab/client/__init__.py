"""Asking a server the way its users do, and writing down when each token arrived."""

"""Training draft heads for a target that writes its own training text."""

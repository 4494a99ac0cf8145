"""Model files: reading them safely, storing them by content, and finding them by name."""

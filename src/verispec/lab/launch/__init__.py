"""Starting a server for one lane, and leaving nothing of it behind."""

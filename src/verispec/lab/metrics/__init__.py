"""Numbers, always derived from raw rows and never kept as the truth."""

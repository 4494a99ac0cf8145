"""Model graphs, written once against the operation contract."""

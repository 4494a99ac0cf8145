"""Evidence: receipts of generations, and their verification by replay."""

"""The ledger for other programs: tables, and the forms that trackers and leaderboards read; nothing is sent."""

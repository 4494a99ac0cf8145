"""The lab: strict measurements and honest decisions about any engine."""

"""The strict gate: a lane counts only if every named rule holds."""

"""The promises as programs: row invariance, schedule invariance and faults, for any backend and any model."""

"""What changes from day to day, so that a part of the cases a run becomes all of them in a few days.

A failure names the day, and with it the case: the same day, given as ``VERISPEC_TEST_DAY=2026-11-30``, meets it again.
The run begins with a line that says which day it goes by.
"""

from __future__ import annotations

import os
from datetime import UTC, date, datetime

VARIABLE = "VERISPEC_TEST_DAY"

# Set for every process that this one starts too: the day of a run does not change at midnight.
DAY = date.fromisoformat(os.environ.setdefault(VARIABLE, datetime.now(UTC).date().isoformat()))

TODAY = DAY.toordinal()
"""The number of the day."""

REPEAT = f"{VARIABLE}={DAY}"
"""What to set so that a test has today's cases again; every test that goes by the day says it in its failure."""

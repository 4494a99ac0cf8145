"""What changes from day to day, so that a part of the cases a run becomes all of them in a few days.

A test that goes by it names its case in its failure: the case alone repeats it.
"""

from __future__ import annotations

from datetime import UTC, datetime

TODAY = datetime.now(UTC).date().toordinal()
"""The number of the day, the same in every process of a run but around midnight."""

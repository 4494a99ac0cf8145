"""What a request's rows cost in a pass that others share."""

from __future__ import annotations

from collections.abc import Sequence

from verispec.engine.pass_cost import CostTable


class SharedCost:
    """A request's part of T(rows, context): an equal share of the pass without its proposal, and all its proposal adds.

    A width that is best by these costs is best for the tokens a second of all requests together, as far as one of them
    can tell: its proposal must pay for the rows it adds at the rate at which the pass yields tokens anyway. Alone it is
    the table itself.
    """

    def __init__(self, table: CostTable) -> None:
        self.table = table
        self.rows = 0
        """Rows that others bring to the next pass."""
        self.requests = 1
        """Requests that the next pass advances, this one included."""

    def row_costs(self, rows: int, context: int) -> Sequence[float]:
        """Seconds for 1, 2, ... ``rows`` rows of this request's, as ``PassCost`` has them."""
        if not self.rows:
            return self.table.row_costs(rows, context)
        costs = self.table.row_costs(self.rows + rows, context)[self.rows :]
        shared = costs[0] - costs[0] / self.requests
        return [cost - shared for cost in costs]

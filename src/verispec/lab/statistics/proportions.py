"""How often something happened, and how often it may happen at most."""

from __future__ import annotations

from dataclasses import dataclass

from scipy import stats


@dataclass(frozen=True, slots=True)
class Proportion:
    """``count`` of ``total``, with one-sided exact bounds."""

    count: int
    total: int

    @property
    def share(self) -> float:
        return self.count / self.total

    def upper(self, level: float = 0.95) -> float:
        """The largest true share that would still show this few with probability 1 - ``level``.

        C. Clopper and E. Pearson, "The use of confidence or fiducial limits" (Biometrika 26, 1934).
        """
        return (
            float(stats.beta.ppf(level, self.count + 1, self.total - self.count))
            if self.count < self.total
            else 1.0
        )

    def as_dict(self) -> dict[str, float | int]:
        return {
            "count": self.count,
            "total": self.total,
            "share": round(self.share, 5),
            "upper_95": round(self.upper(), 5),
        }

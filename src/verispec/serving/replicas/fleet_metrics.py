"""``/metrics`` of several replicas: every engine's families, told apart by the label ``replica``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from verispec.serving.metrics import PREFIX
from verispec.serving.replicas.fleet import Fleet


class FleetCollector(Collector):
    """What the replicas said at the last ``refresh``, and what the front knows of them."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._said: dict[int, list[Metric]] = {}

    async def refresh(self) -> None:
        """Asks every replica that serves."""
        self._said = await self._fleet.ask_all("metrics")

    def describe(self) -> Iterable[Metric]:
        """Nothing, so that registering it reads nothing."""
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from labelled(self._said)
        up = GaugeMetricFamily(PREFIX + "replica_up", "Whether the replica serves.", labels=("replica",))
        for member in self._fleet.members:
            up.add_metric((str(member.number),), float(member.serves))
        yield up
        choices = CounterMetricFamily(
            PREFIX + "replica_choices",
            "Requests given to the replica, for the prefix that it holds or by the load.",
            labels=("replica", "by"),
        )
        for (replica, by), count in self._fleet.balance.choices.items():
            choices.add_metric((str(replica), by), count)
        yield choices


def labelled(said: Mapping[int, list[Metric]]) -> list[Metric]:
    """One family for each name, with the samples of all replicas."""
    families: dict[str, Metric] = {}
    for replica, theirs in said.items():
        for one in theirs:
            family = families.setdefault(one.name, Metric(one.name, one.documentation, one.type))
            family.samples += [
                sample._replace(labels={**sample.labels, "replica": str(replica)}) for sample in one.samples
            ]
    return list(families.values())

"""A space of settings, declared in TOML: knobs, their values, and which go together."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from verispec.errors import OptionError
from verispec.lab.settings import as_texts, checked

Assignment = Mapping[str, Any]
"""A value for every knob that is in play, by the knob's name."""

MOST = 100_000
VALUE = "{value}"
ADDED = ("arguments", "environment", "request", "target")


@dataclass(frozen=True, slots=True)
class SpaceKnob:
    """One thing to turn. ``{value}`` stands for its value in what it adds to a target: ``arguments`` and
    ``environment``, fields of the ``request``, or keys of the ``target`` itself (such as ``draft``).

    The value false adds nothing. ``when`` are values of knobs declared before, without which this one is not in play:
    a knob that the chosen policy never reads would only multiply the same configuration.
    """

    name: str
    values: tuple[Any, ...]
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)
    target: Mapping[str, Any] = field(default_factory=dict)
    when: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def in_play(self, chosen: Assignment) -> bool:
        return all(name in chosen and chosen[name] in values for name, values in self.when.items())

    def add_to(self, table: dict[str, Any], value: Any) -> None:
        """Writes this knob at ``value`` into a target's table."""
        if value is False:
            return
        table["arguments"] = [*table.get("arguments", ()), *(_fill(one, value) for one in self.arguments)]
        for name in ("environment", "request"):
            added = {key: _fill(one, value) for key, one in getattr(self, name).items()}
            if added:
                table[name] = {**table.get(name, {}), **added}
        table.update({key: _fill(one, value) for key, one in self.target.items()})


@dataclass(frozen=True, slots=True)
class Space:
    knobs: tuple[SpaceKnob, ...]

    def assignments(self) -> Iterator[Assignment]:
        """Every combination once, in the order declared; a knob that is not in play is left out."""
        yield from self._from(0, {})

    def configurations(
        self, shared: Mapping[str, Any], control: Mapping[str, Any], most: int, seed: int
    ) -> dict[str, dict[str, Any]]:
        """Targets by name: what all arms share, and what the knobs add.

        Of more than ``most`` combinations so many are drawn, the same ones for the same seed. What
        would be the control itself is left out.
        """
        found: dict[str, dict[str, Any]] = {}
        for chosen in self.assignments():
            table = dict(shared)
            for knob in self.knobs:
                if knob.name in chosen:
                    knob.add_to(table, chosen[knob.name])
            if _settings(table) != _settings(control):
                found[assignment_name(chosen)] = table
        names = list(found)
        if len(names) > most:
            drawn = set(random.Random(seed).sample(names, most))
            names = [name for name in names if name in drawn]
        if not names:
            raise OptionError("space: expected a configuration that is not the control, found none")
        return {name: found[name] for name in names}

    def _from(self, place: int, chosen: dict[str, Any]) -> Iterator[Assignment]:
        if place == len(self.knobs):
            yield dict(chosen)
            return
        knob = self.knobs[place]
        if not knob.in_play(chosen):
            yield from self._from(place + 1, chosen)
            return
        for value in knob.values:
            yield from self._from(place + 1, {**chosen, knob.name: value})


def assignment_name(chosen: Assignment) -> str:
    """How a configuration is called: ``mode=suffix draft=4``."""
    return " ".join(f"{name}={_text(value)}" for name, value in chosen.items())


def parse_space(tables: Sequence[Mapping[str, Any]], where: str) -> Space:
    """The ``[[knob]]`` tables of a search's file. OptionError for what is malformed or means nothing."""
    knobs: list[SpaceKnob] = []
    for number, table in enumerate(tables, 1):
        knob = _knob(table, f"{where}: knob {table.get('name', number)}")
        before = {one.name: one for one in knobs}
        if knob.name in before:
            raise OptionError(f"{where}: expected each knob once, found {knob.name!r} twice")
        for name, values in knob.when.items():
            known = before[name].values if name in before else ()
            missing = [value for value in values if value not in known]
            if missing:
                raise OptionError(
                    f"{where}: knob {knob.name}: when: expected values of knobs before it, found {name}: {missing[0]!r}"
                )
        knobs.append(knob)
    if not knobs:
        raise OptionError(f"{where}: expected [[knob]] tables, found none")
    if math.prod(len(knob.values) for knob in knobs) > MOST:
        raise OptionError(f"{where}: expected at most {MOST} combinations, found more")
    return Space(tuple(knobs))


def _knob(table: Mapping[str, Any], where: str) -> SpaceKnob:
    unknown = sorted(set(table) - {"name", "values", "when", *ADDED})
    if unknown:
        raise OptionError(
            f"{where}: expected only name, values, when, {', '.join(ADDED)}, found {unknown[0]!r}"
        )
    checked(table.get("name", ""), str, f"{where}: name")
    values = tuple(checked(table.get("values", ()), tuple[str | int | float | bool, ...], f"{where}: values"))
    if not table.get("name") or not values or len(set(map(repr, values))) < len(values):
        raise OptionError(f"{where}: expected a name and different values, found {list(values)}")
    added = [table[name] for name in ADDED if table.get(name)]
    if not added:
        raise OptionError(f"{where}: expected one of {', '.join(ADDED)} that it sets, found none")
    if VALUE not in repr(added) and set(values) != {True, False} and values != (True,):
        raise OptionError(f"{where}: expected {VALUE} in what it sets, or the values false and true")
    return SpaceKnob(
        name=str(table["name"]),
        values=values,
        arguments=as_texts(table.get("arguments", ()), f"{where}: arguments"),
        environment=checked(table.get("environment", {}), Mapping[str, Any], f"{where}: environment"),
        request=checked(table.get("request", {}), Mapping[str, Any], f"{where}: request"),
        target=checked(table.get("target", {}), Mapping[str, Any], f"{where}: target"),
        when={
            name: tuple(one if isinstance(one, list) else [one])
            for name, one in checked(table.get("when", {}), Mapping[str, Any], f"{where}: when").items()
        },
    )


def _fill(part: Any, value: Any) -> Any:
    """A part that is the value alone keeps its type."""
    if part == VALUE:
        return value if not isinstance(value, bool) else _text(value)
    return part.replace(VALUE, _text(value)) if isinstance(part, str) else part


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _settings(table: Mapping[str, Any]) -> dict[str, Any]:
    """A target without what says nothing: an empty list is none."""
    return {
        name: [str(one) for one in value] if isinstance(value, list | tuple) else value
        for name, value in table.items()
        if value not in ([], (), {})
    }

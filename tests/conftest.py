"""The real models that tests run on, fetched once into the user's cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from rotation import REPEAT
from verispec.artifacts.pull import catalog_model, pull
from verispec.artifacts.resolve import resolve_model
from verispec.artifacts.store import Store
from verispec.engine.loading import load
from verispec.engine.model import Model
from verispec.errors import FetchError

# How long an example takes says something about the machine alone.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


def model_path(name: str) -> Path:
    """The file of a catalogue model, pulled when it is not here yet."""
    try:
        return resolve_model(name).path
    except FetchError:
        pull(catalog_model(name), Store())
        return resolve_model(name).path


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    return model_path("smollm2-135m")


@pytest.fixture(scope="session")
def gemma3_path() -> Path:
    return model_path("gemma3-270m")


@pytest.fixture(scope="session")
def smollm2(smollm2_path: Path) -> Iterator[Model]:
    with load(smollm2_path, ctx=1024, threads=2) as model:
        yield model


@pytest.fixture(scope="session")
def gemma3(gemma3_path: Path) -> Iterator[Model]:
    with load(gemma3_path, ctx=1024, threads=2) as model:
        yield model


def pytest_sessionstart(session: pytest.Session) -> None:
    """Says the day whose cases are met. A header of pytest's own would be left out of a quiet run."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:  # workers have none
        terminal.write_line(f"cases of the day: {REPEAT}")


LONGEST_FIRST = (
    "test_server_soak",
    "test_server_survives_hostile_clients",
    "test_server_replicas_run_on_ray",
)
"""Files whose single tests take longest: begun last, one of them would keep a run waiting."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Longest first. With several workers it saves a minute; the order means nothing to any test."""
    items.sort(key=lambda item: not item.path.name.startswith(LONGEST_FIRST))

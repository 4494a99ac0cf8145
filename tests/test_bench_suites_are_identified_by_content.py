"""A suite's digest changes with anything that is asked; the suites that come with verispec are what they promise."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from verispec.bench.suites import load_suite, suite_names
from verispec.errors import OptionError

WRITTEN = """
name = "mine"
version = 3
max_tokens = 50
[[prompts]]
id = "one"
class = "edit"
text = "Copy this."
"""


def test_the_suites_of_verispec_hold_twelve_different_prompts() -> None:
    assert set(suite_names()) >= {"copy-heavy-12", "chat-12"}
    for name in ("copy-heavy-12", "chat-12"):
        suite = load_suite(name)
        assert suite.name == name
        assert len({prompt.digest for prompt in suite.prompts}) == 12
        assert len({prompt.category for prompt in suite.prompts}) >= 5


def test_the_digest_follows_everything_that_defines_a_suite() -> None:
    suite = load_suite("chat-12")
    first = suite.prompts[0]
    changed = [
        dataclasses.replace(suite, version=suite.version + 1),
        dataclasses.replace(suite, max_tokens=suite.max_tokens + 1),
        dataclasses.replace(suite, prompts=suite.prompts[::-1]),
        dataclasses.replace(
            suite, prompts=(dataclasses.replace(first, text=first.text + " "), *suite.prompts[1:])
        ),
    ]
    assert len({other.digest for other in [suite, *changed]}) == 5
    assert load_suite("chat-12").digest == suite.digest


def test_a_file_of_ones_own_is_a_suite(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(WRITTEN)
    suite = load_suite(str(path))
    assert (suite.name, suite.version, suite.max_tokens) == ("mine", 3, 50)
    assert suite.prompts[0].text == "Copy this."


@pytest.mark.parametrize(
    "written",
    [
        "name = ",
        'name = "x"',
        WRITTEN.replace('text = "Copy this."', ""),
        WRITTEN.replace('"Copy this."', "5"),
        WRITTEN + WRITTEN.partition("max_tokens = 50")[2],
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, written: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(written)
    with pytest.raises(OptionError, match="expected"):
        load_suite(str(path))


def test_an_unknown_suite_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OptionError, match="chat-12, copy-heavy-12"):
        load_suite("copy-heavy-13")

"""Options of the server: flags and file share their names, each is checked before a model is loaded, none ignored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from verispec.cli import main
from verispec.cli.serve import gather_settings
from verispec.errors import OptionError
from verispec.serving.settings import ServerSettings


def test_the_file_holds_the_flags_names_and_flags_win(tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    path.write_text(
        'model = "gemma3-270m"\nport = 9000\nspec_mode = "suffix"\nallow_origin = ["https://a.example"]\n'
    )
    settings = ServerSettings.of(gather_settings(path, {"port": 9001, "host": None, "alias": []}))
    assert settings.model == "gemma3-270m"
    assert settings.port == 9001
    assert settings.host == "127.0.0.1"
    assert settings.requests == {"spec_mode": "suffix"}
    assert settings.allow_origin == ("https://a.example",)


def test_one_string_is_a_list_of_one() -> None:
    assert ServerSettings.of({"alias": "gpt-4o"}).alias == ("gpt-4o",)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"prot": 1}, "prot: no such option.*did you mean port"),
        ({"port": 70000}, "port: expected 0 to 65535, found 70000"),
        ({"port": "8080"}, "port: expected an integer"),
        ({"port": True}, "port: expected an integer"),
        ({"parallel": 0}, "parallel: expected 1 to"),
        ({"deadline": 0}, "deadline: expected"),
        ({"max_body": float("nan")}, "max_body: expected a finite number"),
        ({"host": ""}, "host: expected a non-empty string"),
        ({"allow_origin": [1]}, "allow_origin: expected non-empty strings"),
        ({"backend": "vllm"}, "backend: expected one of"),
        ({"open_metrics": 1}, "open_metrics: expected true or false"),
        ({"temperature": 0.5}, "temperature: not an option of the server"),
        ({"draft": "suffix", "spec_mode": "off"}, "draft: expected it or spec_mode, found both"),
        ({"draft": "sufix"}, "draft: expected one of"),
        ({"requests": {}}, "requests: no such option"),
    ],
)
def test_what_means_nothing_is_refused_by_name(given: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        ServerSettings.of(given)


def test_a_draft_is_a_strategy_or_a_file() -> None:
    assert ServerSettings.of({"draft": "suffix"}).requests == {"spec_mode": "suffix"}
    assert ServerSettings.of({"draft": "small.gguf"}).requests == {
        "spec_mode": "draft-model",
        "spec_draft_model": "small.gguf",
    }


def test_the_place_of_the_keys_is_not_shown() -> None:
    shown = ServerSettings.of({"api_keys": "/secret/place"}).as_dict()
    assert shown["api_keys"] is True
    assert "/secret/place" not in str(shown)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--port", "70000"], "port: expected 0 to 65535"),
        (
            ["--host", "no.such.host.invalid", "--port", "0"],
            "host: expected a name or address of this machine",
        ),
        (["--api-keys", "/nowhere/keys"], "/nowhere/keys: No such file"),
        (["nothing.gguf", "--port", "0"], "nothing.gguf"),
    ],
)
def test_a_server_that_cannot_start_says_so_in_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert says in printed.err


def test_a_draft_that_cannot_run_is_refused_before_anything_is_loaded(
    smollm2_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(smollm2_path), "--draft", "small.gguf", "--port", "0"]) == 2
    assert "draft-model" in capsys.readouterr().err
    assert (
        main(["serve", str(smollm2_path), "--spec-mode", "off", "--spec-draft-max", "3", "--port", "0"]) == 2
    )
    assert "spec_draft_max: not read by spec_mode off" in capsys.readouterr().err

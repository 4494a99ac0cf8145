"""Commands on a real model, from arguments to what is printed and the exit status."""

from __future__ import annotations

import io
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from verispec.cli import main
from verispec.engine.completion import Chunk, Completion
from verispec.engine.generation import Generation
from verispec.engine.model import Model

MODEL = "smollm2-135m"
PROMPT = "ding dong ding dong ding dong ding"
SHORT = ["--ctx", "128", "--threads", "2"]
RUN = ["run", MODEL, PROMPT, "--raw", *SHORT]

pytestmark = pytest.mark.usefixtures("smollm2_path")  # commands find it by its name


@pytest.fixture(scope="module")
def expected(smollm2: Model) -> Completion:
    return smollm2.generate(PROMPT, max_tokens=6)


def answer(capsys: pytest.CaptureFixture[str], arguments: list[str], status: int = 0) -> Any:
    """The JSON that a command prints on standard output, and nothing else there."""
    found = main([*arguments, "--json"])
    printed = capsys.readouterr()
    assert found == status, printed.err
    return json.loads(printed.out)


def refusal(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    """The one line that a command refuses with."""
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


def test_run_writes_the_answer_and_says_how_it_went(
    capsys: pytest.CaptureFixture[str], expected: Completion
) -> None:
    assert main([*RUN, "--max-tokens", "6", "--spec-mode", "suffix"]) == 0
    printed = capsys.readouterr()
    assert printed.out == expected.text + "\n"
    for part in ("6 tokens,", "target passes", "strategy suffix", "finish length", "seed "):
        assert part in printed.err


def test_one_pass_has_no_rate(capsys: pytest.CaptureFixture[str]) -> None:
    run = [*RUN, "--max-tokens", "1"]
    assert main(run) == 0
    assert capsys.readouterr().err.startswith("1 token, 1 target passes, ")
    assert answer(capsys, run)["timings"]["tokens_per_second"] is None


def test_run_receipt_and_verify(
    capsys: pytest.CaptureFixture[str], expected: Completion, tmp_path: Path
) -> None:
    receipt, wrong, right = tmp_path / "r.json", tmp_path / "wrong.txt", tmp_path / "right.txt"
    report = answer(capsys, [*RUN, "--max-tokens", "6", "--receipt", str(receipt)])
    assert report["text"] == expected.text
    assert report["tokens"] == list(expected.tokens)
    assert report["finish_reason"] == "length"
    assert report["receipt"] == str(receipt)
    assert report["prompt_tokens"] == len(expected.prompt_tokens)
    assert report["passes"] + report["accepted"] == 6
    assert {"strategy", "seed", "drafted", "accepted_by_position", "faults", "timings"} <= report.keys()

    wrong.write_text(PROMPT + "!")
    right.write_text(PROMPT + "\n")
    verify = ["verify", str(receipt), "--threads", "2"]
    assert answer(capsys, verify, 1)["verdict"] == "prompt-required"
    assert main(verify) == 1
    assert "prompt-required: the receipt holds no prompt and none was given; give it with --prompt FILE" in (
        capsys.readouterr().out
    )
    assert answer(capsys, [*verify, "--prompt", str(wrong)], 1)["verdict"] == "prompt-required"
    verdict = answer(capsys, [*verify, "--prompt", str(right)])
    assert verdict == {
        "verdict": "verified",
        "reason": "a target-only replay gives the same 6 tokens",
        "position": None,
        "uncertainty": 0,
        "signature": "absent",
        "signed_by": None,
    }


def test_a_receipt_with_its_text_stands_alone_until_it_is_altered(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    receipt = tmp_path / "r.json"
    arguments = [*RUN, "--max-tokens", "6", "--receipt", str(receipt), "--include-text"]
    report = answer(capsys, [*arguments, "--temperature", "0.8", "--seed", "12", "--logprobs", "2"])
    assert report["seed"] == 12
    assert [len(one["alternatives"]) for one in report["logprobs"]] == [2] * 6
    assert main(["verify", str(receipt), "--threads", "2"]) == 0
    assert capsys.readouterr().out.startswith("verified: ")
    written = receipt.read_bytes()
    receipt.write_bytes(written.replace(b'"seed": 12', b'"seed": 13'))
    assert receipt.read_bytes() != written
    assert answer(capsys, ["verify", str(receipt)], 1)["verdict"] == "altered"
    receipt.write_bytes(written[:-20])
    assert answer(capsys, ["verify", str(receipt)], 1)["verdict"] == "altered"


def test_stop_strings_end_the_answer(capsys: pytest.CaptureFixture[str], expected: Completion) -> None:
    stop = expected.text[4:7]
    report = answer(capsys, [*RUN, "--max-tokens", "6", "--stop", "@@", "--stop", stop])
    assert report["finish_reason"] == "stop"
    assert report["stop_string"] == stop
    assert report["text"] == expected.text[: expected.text.index(stop)]


def test_a_model_cannot_command_the_terminal_and_a_pipe_gets_its_text(
    capsys: pytest.CaptureFixture[str], smollm2: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (escape,) = smollm2.encode("\x1b")
    config = tmp_path / "options.toml"
    config.write_text(f"[logit_bias]\n{escape} = 1000.0\n")
    run = [*RUN, "--max-tokens", "2", "--config", str(config)]
    assert main(run) == 0
    assert capsys.readouterr().out == "\x1b\x1b\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(run) == 0
    assert capsys.readouterr().out == "\\x1b\\x1b\n"


def test_capabilities_is_the_matrix_with_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    report = answer(capsys, ["capabilities", MODEL, *SHORT])
    assert (report["backend"], report["exactness"], report["context"]) == ("native", "exact", 128)
    rows = {row["name"]: row for row in report["strategies"]}
    assert list(rows) == [
        "off",
        "auto",
        "prompt-lookup",
        "ngram-context",
        "suffix",
        "draft-model",
        "mtp",
        "eagle3",
        "dflash",
        "dspark",
    ]
    for row in rows.values():
        assert row["status"] in ("available", "unavailable")
        assert bool(row["reason"]) == bool(row["remedy"]) == (row["status"] == "unavailable")
    assert rows["suffix"]["status"] == "available"
    assert rows["mtp"]["reason"] == "needs-prediction-tensors"
    assert rows["auto"]["detail"] == "picks suffix+eagle3"
    assert rows["dflash"]["reason"] == "needs-draft-artifact"
    assert len(report["identity"]["artifact_sha256"]) == 64


def test_parity_counts_cases(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text(f"{PROMPT}\n\nblue red blue red blue\n")
    arguments = ["parity", MODEL, "--prompts", str(prompts), "--raw", *SHORT, "--max-tokens", "6"]
    arguments += ["--strategies", "suffix,prompt-lookup", "--widths", "2", "--seeds", "2"]
    report = answer(capsys, [*arguments, "--temperatures", "0,0.8"])
    assert report == {"cases": 12, "identical": 12, "first_differences": []}


def test_parity_exits_1_on_a_difference(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps({"prompt": PROMPT}) + "\n")
    generate = Model.generate

    def other_when_speculating(model: Model, prompt: Any, **options: Any) -> Completion:
        options["temperature"] = 0.0 if options["spec_mode"] == "off" else 5.0
        return generate(model, prompt, **options)

    monkeypatch.setattr(Model, "generate", other_when_speculating)
    arguments = ["parity", MODEL, "--prompts", str(prompts), "--raw", *SHORT, "--max-tokens", "4"]
    arguments += ["--strategies", "suffix", "--widths", "2", "--seeds", "1", "--temperatures", "0"]
    report = answer(capsys, arguments, 1)
    assert (report["cases"], report["identical"]) == (1, 0)
    (difference,) = report["first_differences"]
    assert difference["what"] == "token"
    assert difference["margin"] > 0
    assert difference["case"]["strategy"] == "suffix"


def test_a_corpus_is_built_consulted_and_named_in_the_receipt(
    capsys: pytest.CaptureFixture[str], expected: Completion, tmp_path: Path
) -> None:
    text, corpus, receipt = tmp_path / "text.txt", tmp_path / "texts.corpus", tmp_path / "r.json"
    text.write_text((PROMPT + expected.text) * 3)
    facts = answer(capsys, ["corpus", MODEL, str(text), "--output", str(corpus)])
    assert facts["path"] == str(corpus)
    assert facts["texts"] == 1
    assert facts["size"] == corpus.stat().st_size
    arguments = [*RUN, "--max-tokens", "6", "--spec-mode", "suffix", "--spec-suffix-corpus", str(corpus)]
    arguments += ["--spec-draft-policy", "fixed", "--receipt", str(receipt)]
    report = answer(capsys, arguments)
    assert report["text"] == expected.text
    assert report["accepted"] > 0
    artifacts = json.loads(receipt.read_bytes())["body"]["replayed"]["artifacts"]
    assert set(artifacts) == {"target", "corpus"}


def test_demo_compares_and_leaves_a_receipt_that_verifies(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    receipt = tmp_path / "demo.json"
    arguments = ["demo", MODEL, "--prompt", PROMPT, "--max-tokens", "6", "--threads", "2"]
    report = answer(capsys, [*arguments, "--receipt", str(receipt)])
    assert report["identical"] is True
    assert report["receipt"] == str(receipt)
    assert report["off"]["tokens"] == report["on"]["tokens"]
    assert (report["off"]["strategy"], report["on"]["strategy"]) == ("off", "suffix+eagle3")
    assert answer(capsys, ["verify", str(receipt), "--threads", "2"])["verdict"] == "verified"


def test_a_flag_wins_over_the_file(
    capsys: pytest.CaptureFixture[str], expected: Completion, tmp_path: Path
) -> None:
    config = tmp_path / "options.toml"
    config.write_text('max_tokens = 3\nspec_mode = "prompt-lookup"\nspec_draft_max = 2\nctx = 64\nseed = 8\n')
    run = ["run", MODEL, PROMPT, "--raw", "--threads", "2", "--config", str(config)]
    report = answer(capsys, run)
    assert (len(report["tokens"]), report["strategy"], report["seed"]) == (3, "prompt-lookup", 8)
    report = answer(capsys, [*run, "--max-tokens", "6", "--spec-mode", "suffix", "--seed", "9"])
    assert (report["strategy"], report["seed"]) == ("suffix", 9)
    assert report["tokens"] == list(expected.tokens)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("max_tokns = 3", "max_tokns: no such option; did you mean max_tokens?"),
        ("spec_draft_maxi = 3", "spec_draft_maxi: no such speculation option"),
        ('max_tokens = "3"', "max_tokens: expected an integer"),
        ('spec_mode = "mtp"', "[needs-prediction-tensors]"),
        ('spec_mode = "off"\nspec_draft_max = 3', "spec_draft_max: not read by spec_mode off"),
        ("max_tokens = ", "expected TOML"),
        ("[server]\nport = 80", "options.toml: found a table [server]; keys stand at the top level"),
    ],
)
def test_a_file_that_means_nothing_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str, says: str
) -> None:
    config = tmp_path / "options.toml"
    config.write_text(line + "\n")
    assert says in refusal(capsys, [*RUN, "--config", str(config)])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--spec-mode", "dflash"], "[needs-draft-artifact]"),
        (["--spec-mode", "suffix", "--spec-mtp-recurrent-snapshots", "7"], "not read by spec_mode suffix"),
        (["--temperature", "-1"], "temperature: expected 0 to 100"),
        (["--include-text"], "include-text: not read without --receipt"),
        (["--receipt", "/no/such/folder/r.json"], "receipt: /no/such/folder/r.json: expected a folder"),
        (["--receipt", "/dev/null"], "receipt: expected a file, found something else at /dev/null"),
        (["--logprobs", "2"], "logprobs: shown only with --json"),
        (["--ctx", "0"], "ctx: expected 1 to"),
        (["--ctx", "5"], "expected fewer than 5 tokens (the context)"),
        (["--backend", "abacus"], "backend: expected one of native, transformers"),
    ],
)
def test_run_refuses_in_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    assert says in refusal(capsys, [*RUN, *arguments])


def test_run_without_a_prompt_reads_one(
    capsys: pytest.CaptureFixture[str], expected: Completion, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ["run", MODEL, "--raw", *SHORT, "--max-tokens", "6"]
    monkeypatch.setattr(sys, "stdin", io.StringIO(PROMPT))
    assert answer(capsys, run)["tokens"] == list(expected.tokens)
    assert "prompt: expected text, found nothing" in refusal(capsys, run)  # it is read up


def test_an_interrupted_answer_keeps_its_receipt_and_is_status_130(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipt = tmp_path / "r.json"
    more = Generation.__next__

    def interrupted(generation: Generation) -> Chunk:
        chunk = more(generation)
        signal.raise_signal(signal.SIGINT)
        return chunk

    monkeypatch.setattr(Generation, "__next__", interrupted)
    assert main([*RUN, "--max-tokens", "100", "--receipt", str(receipt)]) == 130
    printed = capsys.readouterr()
    assert printed.out.strip()
    assert "finish cancelled" in printed.err
    assert json.loads(receipt.read_bytes())["body"]["replayed"]["output"]["finish_reason"] == "cancelled"


@pytest.mark.parametrize(
    ("flag", "content", "says"),
    [
        ("--grammar", "root ::= (", "FILE: ebnf: "),
        ("--json-schema", "[1]", "FILE: json_schema: expected an object, found list"),
        ("--json-schema", "{\n oops", "FILE: expected JSON, found at line 2 column 2: "),
        ("--json-schema", "[" * 200_000, "FILE: expected JSON of a reasonable size"),
    ],
)
def test_what_is_wrong_with_a_grammar_is_said_with_its_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, flag: str, content: str, says: str
) -> None:
    file = tmp_path / "grammar.txt"
    file.write_text(content)
    assert says.replace("FILE", str(file)) in refusal(capsys, [*RUN, flag, str(file)])


def test_conformance_prints_its_checks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("verispec.conformance.suite.running_strategies", lambda model: ("suffix",))
    monkeypatch.setattr("verispec.conformance.suite.STEPS", ("evaluate",))
    monkeypatch.setattr("verispec.conformance.suite.TEXT", PROMPT)
    report = answer(capsys, ["conformance", "native", MODEL, "--max-tokens", "8", *SHORT])
    assert (report["adapter"], report["exactness"], report["conforms"]) == ("native", "exact", True)
    assert [check["name"] for check in report["checks"]] == [
        "C1 row invariance",
        "C2 schedule invariance",
        "C2 in company",
        "faults",
    ]

"""What the programs that measure external drafters ask for: which artifact drafts, how, and on which prompts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.held_out_prompts import held_out_prompts

from verispec.artifacts.draft_manifest import KINDS, read_draft_manifest
from verispec.artifacts.resolve import resolve_model
from verispec.bench.suites import Suite
from verispec.cli.output import INTERRUPTED, print_error
from verispec.engine.model import Model
from verispec.engine.prompt import Prompt
from verispec.errors import OptionError, VerispecError
from verispec.lab.suites.prompts import load_prompts

BEFORE = "suffix"
"""The strategy that is asked before the artifact in a chain."""
HELD_OUT_SUITES = ("realistic-12", "chat-12", "copy-heavy-12")
PATIENCE = 60.0
"""Seconds that a drafter may take here: a busy machine must not look like a fault."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An admitted artifact, by the strategy that drafts with it."""

    kind: str
    path: str

    @classmethod
    def parse(cls, word: str) -> Draft:
        """``KIND=PATH``. Raises OptionError for another form, kind or manifest, AdmissionError where there is none."""
        kind, equals, path = word.partition("=")
        if not equals or not path or kind not in KINDS:
            raise OptionError(f"draft: expected KIND=PATH with a kind of {', '.join(KINDS)}, found {word!r}")
        admitted = read_draft_manifest(resolve_model(path).path).kind
        if admitted != kind:
            raise OptionError(f"draft {word!r}: expected an artifact admitted as {kind}, found {admitted}")
        return cls(kind, path)

    def options(self, width: int | None, chained: bool = False) -> dict[str, Any]:
        """Options of a request that it drafts for: proposals of ``width`` tokens however unsure it is, or the adaptive
        width and the other defaults for None; behind ``BEFORE`` when ``chained``."""
        mode = f"{BEFORE}+{self.kind}" if chained else self.kind
        options = {"spec_mode": mode, "spec_draft_model": self.path, "drafter_deadline": PATIENCE}
        if width is None:
            return options
        return options | {"spec_draft_max": width, "spec_draft_policy": "fixed", "spec_draft_p_min": 0.0}

    @property
    def same_tokens(self) -> bool:
        """Whether it proposes from distributions over the target's tokens."""
        return read_draft_manifest(resolve_model(self.path).path).same_tokens

    def describe(self) -> dict[str, Any]:
        """What a result says of it: its manifest without the test vector, and its size."""
        path = resolve_model(self.path).path
        manifest = read_draft_manifest(path)
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        return {
            "kind": self.kind,
            "file": manifest.file,
            "sha256": manifest.sha256,
            "bytes": sum(file.stat().st_size for file in files),
            "head": dict(manifest.head),
            "source": asdict(manifest.source),
        }


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A prompt that no drafter was trained on, as the target's tokens."""

    name: str
    tokens: tuple[int, ...]


def held_out(model: Model, count: int) -> list[HeldOut]:
    """``count`` prompts: the user turns of three suites, then passages of documents to continue.

    Raises OptionError when there are not so many.
    """
    asked: list[tuple[str, Prompt]] = [
        (f"{name}/{prompt.id}", as_turn(model, prompt.text))
        for name in HELD_OUT_SUITES
        for prompt in load_prompts(name).prompts
    ]
    passages = held_out_prompts(max(0, count - len(asked)))
    asked += [(f"passage {index}", text) for index, text in enumerate(passages)]
    if not 0 < count <= len(asked):
        raise OptionError(f"prompts: expected 1 to {len(asked)}, found {count}")
    return [HeldOut(name, tuple(model.encode(prompt))) for name, prompt in asked[:count]]


def as_turn(model: Model, text: str) -> Prompt:
    """A user turn, or the text itself for a model without a chat template."""
    return [{"role": "user", "content": text}] if model.template else text


def prompts_sha256(prompts: Sequence[HeldOut]) -> str:
    """A digest of all prompts in their order."""
    return hashlib.sha256(json.dumps([asdict(prompt) for prompt in prompts]).encode()).hexdigest()


def shortened(name: str, prompts: int | None, tokens: int) -> Suite:
    """The suite ``name`` with its first ``prompts`` (None: all), answers cut at ``tokens``."""
    suite = load_prompts(name)
    if prompts is not None and not 0 < prompts <= len(suite.prompts):
        raise OptionError(f"prompts: expected 1 to {len(suite.prompts)}, found {prompts}")
    return replace(suite, max_tokens=tokens, prompts=suite.prompts[:prompts])


def checked_output(path: Path) -> Path:
    """``path``, a file that can be written when the work is done. Raises OptionError where it cannot."""
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise OptionError(f"output: expected a file in a folder that is there, found {path}")
    return path


def in_one_line(run: Callable[[], int]) -> int:
    """The exit status of ``run``; 2 after an error, said in one line."""
    try:
        return run()
    except VerispecError as error:
        print_error(str(error))
    except OSError as error:
        print_error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    return 2

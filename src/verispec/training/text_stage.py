"""The first stage of a training: the target writes until there is enough."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from verispec.artifacts.lock import exclusive
from verispec.artifacts.resolve import resolve_model
from verispec.backends.native import NativeBackend
from verispec.backends.native_plan import plan_model
from verispec.errors import OptionError
from verispec.text.chat_template import ChatTemplate
from verispec.text.tokenizer import Tokenizer
from verispec.training.numbering import TEMPERATURES
from verispec.training.plan import Progress, TrainingPlan, check_target, draft_taps
from verispec.training.prompts import InventedPrompts, ListedPrompts, Prompts
from verispec.training.text_store import LISTED, TextStore
from verispec.training.writing import INVENTING, TargetWriter

SEQUENCES = 32
"""Texts written at once."""
STAGE = "writing"
LOCK = ".writing.lock"
WAITING = "another run writes to this folder; waiting for it"
LEAST_ANSWER = 8
"""Tokens that the longest prompt must leave room for."""


def write_texts(plan: TrainingPlan, progress: Progress) -> TextStore:
    """The store of ``plan`` with as many answer tokens as it asks for, or a few more: a text that was begun is
    ended, for short ones would come first. Where another process writes to the folder, it is waited for.

    Raises OptionError for a folder with texts of other settings and for prompts that leave no room for answers, and
    what loading the target raises.
    """
    path = resolve_model(plan.target).path
    checked = plan_model(path)
    with checked.file:
        tokenizer = Tokenizer.from_gguf(checked.file.metadata, str(path))
        prompts = _prompts(plan, tokenizer, ChatTemplate.from_gguf(checked.file.metadata, str(path)))
        check_target(checked.model)
        taps = (*draft_taps(checked.model.layers), -1)
        settings = _settings(plan, checked.file.sha256(), checked.model.hidden_size, taps, prompts)
        context = _context(plan, prompts, checked.model.trained_context)
    store = TextStore(plan.texts, settings)
    if _Written(store, plan.tokens).enough:
        progress(STAGE, plan.tokens, plan.tokens, "")
        return store
    with exclusive(store.folder / LOCK, lambda: progress(STAGE, 0, plan.tokens, WAITING)):
        written = _Written(store, plan.tokens)  # with what the other one wrote
        wanted = (plan.tokens - written.tokens) * _tokens_an_answer_token(plan, prompts)
        _check_room(store.folder, int(wanted * store.bytes_a_token))
        progress(STAGE, min(written.tokens, plan.tokens), plan.tokens, "")
        backend = NativeBackend.load(path, context, plan.threads, SEQUENCES)
        try:
            writer = TargetWriter(backend, prompts, tokenizer.eos_ids, taps, plan.lengths, plan.settings.seed)
            _write(store, writer, written, plan.tokens, progress)
        finally:  # what is finished is good, whatever ended the writing
            backend.close()
            store.flush()
    return store


def _write(
    store: TextStore, writer: TargetWriter, written: _Written, wanted: int, progress: Progress
) -> None:
    with closing(writer.write(written.missing())) as texts:
        for text in texts:
            store.add(text)
            written.tokens += len(text.tokens) - text.prompt
            progress(STAGE, min(written.tokens, wanted), wanted, f"text {text.number}")


def _context(plan: TrainingPlan, prompts: Prompts, trained: int) -> int:
    """Positions of a sequence that holds the longest text, or as many as the target was trained on."""
    invented = _invented(plan)
    if prompts.longest + invented + LEAST_ANSWER > trained:
        raise OptionError(
            f"prompts: expected at most {trained - LEAST_ANSWER} tokens, so that an answer has room in the "
            f"{trained} positions that the target was trained on, found up to {prompts.longest + invented}"
        )
    return min(trained, prompts.longest + invented + plan.lengths.answer)


def _invented(plan: TrainingPlan) -> int:
    """Most tokens of a prompt that the target writes itself."""
    return plan.lengths.prompt if plan.prompts is None else 0


def _tokens_an_answer_token(plan: TrainingPlan, prompts: Prompts) -> float:
    """Tokens of texts for each of an answer, where answers are as long as they may be."""
    return 1 + (prompts.mean + _invented(plan)) / plan.lengths.answer


def _check_room(folder: Path, wanted: int) -> None:
    free = shutil.disk_usage(folder).free
    if wanted > free:
        raise OptionError(
            f"tokens: expected at most what fits on the disk of {folder}, with {free / 1e9:.1f} GB free, found enough "
            f"for {wanted / 1e9:.1f} GB"
        )


class _Written:
    """What a store holds of the texts 0, 1, 2, ..., and which of them are still to be written for ``wanted`` answer
    tokens. What is there behind the first one missing is counted when the count comes to it: which texts a run learns
    from does then not depend on when it was killed."""

    def __init__(self, store: TextStore, wanted: int) -> None:
        self.tokens = 0
        """Of answers that are written, as far as texts have been begun or were there."""
        self._there = store.answer_tokens()
        self._wanted = wanted
        self._next = 0
        self._count_there()

    @property
    def enough(self) -> bool:
        return self.tokens >= self._wanted

    def missing(self) -> Iterator[int]:
        """Numbers that are not there, until there is enough."""
        while not self.enough:
            number = self._next
            self._next += 1
            yield number
            self._count_there()

    def _count_there(self) -> None:
        while not self.enough and self._next in self._there:
            self.tokens += self._there[self._next]
            self._next += 1


def _prompts(plan: TrainingPlan, tokenizer: Tokenizer, template: ChatTemplate | None) -> Prompts:
    if plan.prompts is None:
        return InventedPrompts(template, tokenizer)
    return ListedPrompts(plan.prompts, template, tokenizer)


def _settings(
    plan: TrainingPlan, sha256: str, hidden_size: int, taps: tuple[int, ...], prompts: Prompts
) -> dict[str, Any]:
    """What the texts are a function of."""
    listed = prompts.numbering.listed
    return {
        "target_sha256": sha256,
        "seed": plan.settings.seed,
        "prompts": prompts.statement,
        **({} if listed is None else {LISTED: listed}),
        "invented_at": INVENTING,
        "answered_at": list(TEMPERATURES),
        "longest_prompt": plan.lengths.prompt,
        "longest_answer": plan.lengths.answer,
        "taps": list(taps),
        "hidden_size": hidden_size,
    }

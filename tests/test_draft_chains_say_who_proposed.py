"""A chain asks its strategies in order: the first that is sure enough drafts the round, and the receipt says which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from drafting_targets import FEW, Artifacts, write_artifacts
from verispec.drafting.chain import ChainDrafter
from verispec.drafting.contract import CONTEXT_LIMIT, NOTHING, Drafter, Proposal
from verispec.drafting.resolution import resolve
from verispec.engine.batching.job import Job
from verispec.engine.batching.scheduler import Scheduler, SchedulerLimits
from verispec.engine.completion import Completion
from verispec.engine.loading import load
from verispec.engine.model import Model
from verispec.engine.replay import ModelReplayer
from verispec.errors import OptionError, UnsupportedError
from verispec.evidence.verify import Verdict, verify

PROMPT = [7, 1, 9, 4, 4, 2, 8] * 5
CHAINS = (
    ["suffix", "eagle3"],
    ["prompt-lookup", "dspark"],
    ["dflash", "suffix"],
    ["ngram-context", "draft-model"],
)


class Scripted(Drafter):
    """Proposes what it was told, however often."""

    def __init__(self, name: str, *confidences: float) -> None:
        self.name = name
        self.declined: dict[str, int] = {}
        self.asked: list[int] = []
        self._confidences = confidences

    def observe(self, tokens: Sequence[int]) -> None:
        pass

    def propose(self, limit: int) -> Proposal:
        self.asked.append(limit)
        if not self._confidences:
            self.declined[CONTEXT_LIMIT] = self.declined.get(CONTEXT_LIMIT, 0) + 1
        kept = self._confidences[:limit]
        return Proposal([len(self.name)] * len(kept), kept) if kept else NOTHING

    def checkpoint(self) -> int:
        return len(self.asked)

    def restore(self, checkpoint: object) -> None:
        assert isinstance(checkpoint, int)
        del self.asked[checkpoint:]


def chain(*drafters: Scripted, costly: Sequence[bool] = (), p_min: float = 0.5) -> ChainDrafter:
    return ChainDrafter(drafters, costly or [False] * len(drafters), p_min)


@pytest.mark.parametrize(
    ("first", "second", "winner"),
    [
        ((0.9, 0.1), (0.8,), "a"),
        ((0.5,), (0.8,), "a"),
        ((0.4, 0.9), (0.1,), "bb"),
        ((), (0.1,), "bb"),
        ((0.4,), (), "a"),
        ((), (), ""),
    ],
)
def test_the_first_that_is_sure_enough_wins(
    first: tuple[float, ...], second: tuple[float, ...], winner: str
) -> None:
    proposal = chain(Scripted("a", *first), Scripted("bb", *second)).propose(4)
    assert proposal.source == winner
    assert all(token == len(winner) for token in proposal.tokens)


def test_who_comes_behind_a_winner_is_not_asked() -> None:
    first, second = Scripted("a", 0.9), Scripted("bb", 0.9)
    chain(first, second).propose(3)
    assert (first.asked, second.asked) == ([3], [])


def test_who_takes_time_is_asked_for_what_is_worth_it() -> None:
    first, second = Scripted("a", 0.1), Scripted("bb", 0.9, 0.9, 0.9)
    both = chain(first, second, costly=[False, True])
    for worth, asked in ((2, [2]), (0, []), (None, [4])):
        second.asked.clear()
        both.costly_limit = worth
        proposal = both.propose(4)
        assert second.asked == asked
        assert proposal.source == ("bb" if asked else "a")
        assert both.is_costly(proposal.source) == bool(asked)


def test_all_go_back_together_and_what_was_declined_is_theirs() -> None:
    first, second = Scripted("a"), Scripted("bb")
    both = chain(first, second)
    mark = both.checkpoint()
    both.propose(2)
    assert both.declined == {CONTEXT_LIMIT: 2}
    both.restore(mark)
    assert (first.asked, second.asked) == ([], [])


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Artifacts:
    return write_artifacts(tmp_path_factory.mktemp("artifacts"))


@pytest.fixture(scope="module")
def model(artifacts: Artifacts) -> Iterator[Model]:
    with load(artifacts.target, threads=1) as model:
        yield model


def options_of(names: list[str], artifacts: Artifacts, **changes: Any) -> dict[str, Any]:
    kind = next(name for name in names if name in artifacts.of)
    return {**artifacts.options(kind), "spec_mode": names, **changes}


@pytest.mark.parametrize("policy", ["fixed", "adaptive"])
@pytest.mark.parametrize("names", CHAINS, ids="+".join)
def test_the_text_is_the_targets_own(
    names: list[str], policy: str, model: Model, artifacts: Artifacts
) -> None:
    for sampling in ({"temperature": 0.0}, {"temperature": 0.8, "seed": 3}, {"temperature": 1.0, "seed": 4}):
        plain = {"max_tokens": 30, "ignore_eos": True, "logit_bias": FEW, **sampling}
        off = model.generate(PROMPT, spec_mode="off", **plain)
        for width in (1, 3, 5, 7):
            options = options_of(names, artifacts, spec_draft_max=width, spec_draft_policy=policy)
            found = model.generate(PROMPT, **options, **plain)
            assert (found.tokens, found.faults) == (off.tokens, ())
            assert found.strategy == "+".join(names)
            assert set(found.sources) <= {*names, ""}


def test_receipts_say_whose_each_proposal_was(model: Model, artifacts: Artifacts) -> None:
    options = options_of(["suffix", "eagle3"], artifacts, spec_chain_p_min=0.7)
    plain = {"max_tokens": 40, "ignore_eos": True, "logit_bias": FEW, "temperature": 0.9, "seed": 2}
    found = model.generate(PROMPT, **options, **plain)
    assert {"suffix", "eagle3"} <= set(found.sources)
    assert len(found.sources) == len(found.rounds)
    assert all(
        bool(source) == bool(drafted)
        for source, (drafted, _) in zip(found.sources, found.rounds, strict=True)
    )
    receipt = model.receipt(found, include_text=True)
    section = receipt.body["recomputed-with-drafter"]
    assert section["sources"] == list(found.sources)
    assert section["speculation"]["strategy"] == "suffix+eagle3"
    assert "drafter" in receipt.replayed["artifacts"]
    assert verify(receipt, lambda _: ModelReplayer(model)).verdict is Verdict.VERIFIED
    alone = model.generate(PROMPT, spec_mode="suffix", **plain)
    assert alone.sources == ()


def test_a_name_with_plus_is_the_same_chain(model: Model, artifacts: Artifacts) -> None:
    plain = {"max_tokens": 20, "ignore_eos": True, "logit_bias": FEW}
    listed = model.generate(PROMPT, **options_of(["suffix", "dspark"], artifacts), **plain)
    options = options_of(["suffix", "dspark"], artifacts, spec_mode="suffix+dspark")
    joined = model.generate(PROMPT, **options, **plain)
    assert (listed.rounds, listed.sources) == (joined.rounds, joined.sources)


def test_chains_in_company(model: Model, artifacts: Artifacts) -> None:
    plain = {"max_tokens": 20, "ignore_eos": True, "logit_bias": FEW, "temperature": 0.9, "seed": 2}
    options = [{**plain, **options_of(names, artifacts)} for names in CHAINS[:3]]
    off = model.generate(PROMPT, spec_mode="off", **plain)
    scheduler = Scheduler(model, SchedulerLimits(parallel=3, prompt_rows=20))
    jobs = [Job(model.prepare(PROMPT, one)) for one in options]
    scheduler.submit(*jobs)
    while not scheduler.idle:
        scheduler.step()
    for job in jobs:
        found = job.outcome()
        assert isinstance(found, Completion)
        assert (found.tokens, found.faults) == (off.tokens, ())


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        (["suffix", "suffix"], "expected 2 to 4 different strategies in a chain"),
        (["suffix", "off"], "found 'off' in it"),
        ("suffix+auto", "found 'auto' in it"),
        ("suffix+", "found '' in it"),
        (["suffix", "medusa"], "found 'medusa' in it"),
        ([], "expected the name of a strategy, or several"),
        (3, "expected the name of a strategy, or several"),
    ],
)
def test_what_is_no_chain_is_refused(mode: Any, says: str, model: Model) -> None:
    with pytest.raises(OptionError, match=says):
        model.prepare(PROMPT, {"spec_mode": mode})


def test_one_artifact_names_one_strategy(model: Model, artifacts: Artifacts) -> None:
    with pytest.raises(UnsupportedError) as refused:
        resolve(["eagle3", "dflash"], {"spec_draft_model": "x"}, model.backend.capabilities)
    assert refused.value.code == "one-draft-artifact"
    with pytest.raises(UnsupportedError) as refused:
        resolve(["mtp", "eagle3"], {"spec_draft_model": "x"}, model.backend.capabilities)
    assert refused.value.code == "one-cache-of-entries"
    with pytest.raises(UnsupportedError) as refused:
        resolve(["suffix", "eagle3"], {}, model.backend.capabilities)
    assert refused.value.code == "needs-draft-artifact"


def test_options_are_those_of_all_and_no_others(model: Model) -> None:
    target = model.backend.capabilities
    settings = resolve(
        "suffix+prompt-lookup", {"spec_suffix_min_match": 2, "spec_ngram_max": 3}, target
    ).settings
    assert (settings["spec_suffix_min_match"], settings["spec_ngram_max"]) == (2, 3)
    assert settings["spec_chain_p_min"] == 0.5
    with pytest.raises(OptionError, match="spec_draft_model: not read by spec_mode suffix"):
        resolve("suffix+prompt-lookup", {"spec_draft_model": "x"}, target)
    with pytest.raises(OptionError, match="spec_chain_p_min: not read by spec_mode suffix"):
        resolve("suffix", {"spec_chain_p_min": 0.5}, target)

"""The rules of the strict gate, each a function of a lane's evidence with a name that a failure is called by.

A rule returns what is wrong, or None. What is not known fails: a lane is valid only where everything was seen to hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from verispec.lab.metrics.rates import WINDOW
from verispec.lab.metrics.token_times import token_times

FEWEST_TOKENS = WINDOW
NOT_ASKED = "no canary was asked"
CAUSES = ("no-fault", "identity-complete", "identity-as-declared", "canaries-pass", "knobs-read")
"""Rules whose failure ends a lane before its prompts, in the order in which a lane comes to them."""
LONGEST = 60
"""Characters of an answer that a reason quotes."""

Rows = Sequence[Mapping[str, Any]]
Lane = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RuleResult:
    """``detail`` says what was found; for a rule that holds it is empty."""

    name: str
    holds: bool
    detail: str = ""

    def record(self) -> dict[str, Any]:
        return asdict(self)


Results = Sequence[RuleResult] | Sequence[Mapping[str, Any]]
"""Of a gate that was just asked, or as a record holds them."""


def judge(lane: Lane, rows: Rows) -> list[RuleResult]:
    """Every rule on one lane: its record without the gate's own results, and its raw rows."""
    results = []
    for name, rule in RULES.items():
        wrong = rule(lane, rows)
        results.append(RuleResult(name, wrong is None, wrong or ""))
    return results


def is_valid(results: Results) -> bool:
    """Whether all rules were asked and hold."""
    held = {_field(one, "name") for one in results if _field(one, "holds")}
    return held == set(RULES)


def broken_rules(results: Results) -> list[tuple[str, str]]:
    """(name, detail) of every rule that does not hold; what kept the prompts from being asked comes first, since the
    rest follows from it."""
    broken = [(_field(one, "name"), _field(one, "detail")) for one in results if not _field(one, "holds")]
    return sorted(broken, key=lambda one: _distance(*one))


def broken_names(results: Results) -> list[str]:
    """Their names alone."""
    return [name for name, _ in broken_rules(results)]


def failures(results: Results) -> list[str]:
    """``name: detail`` of each."""
    return [f"{name}: {detail}" for name, detail in broken_rules(results)]


def _distance(name: str, detail: str) -> int:
    """How far a failure is from the cause of others."""
    return CAUSES.index(name) if name in CAUSES and detail != NOT_ASKED else len(CAUSES)


def _field(result: RuleResult | Mapping[str, Any], name: str) -> Any:
    return result[name] if isinstance(result, Mapping) else getattr(result, name)


def no_fault(lane: Lane, rows: Rows) -> str | None:
    """Nothing went wrong while it ran: the server lived, spoke the protocol, and the clocks agreed."""
    faults = [f"{one['name']} ({one['detail']})" for one in lane["faults"]]
    faults += [
        f"{row['prompt']}: {row['fault']['name']} ({row['fault']['detail']})" for row in rows if row["fault"]
    ]
    return "; ".join(faults) or None


def prompts_done(lane: Lane, rows: Rows) -> str | None:
    """Every prompt of the suite has a row that came to its end."""
    done = {row["prompt"] for row in rows if row["fault"] is None and row["finish_reason"]}
    missing = [one["id"] for one in lane["suite"]["prompts"] if one["id"] not in done]
    return f"not done: {', '.join(missing)}" if missing or not lane["suite"]["prompts"] else None


def prompts_unique(lane: Lane, rows: Rows) -> str | None:
    """No two prompts have one text, by hash; a repeated one is answered from a cache."""
    digests = Counter(row["prompt_sha256"] for row in rows)
    twice = [row["prompt"] for row in rows if digests[row["prompt_sha256"]] > 1]
    return f"the same text: {', '.join(twice)}" if twice else None


def prompts_once(lane: Lane, rows: Rows) -> str | None:
    """Each prompt has one row, and it is the suite's text that was asked."""
    counts = Counter(row["prompt"] for row in rows)
    twice = [prompt for prompt, count in counts.items() if count > 1]
    asked = {one["id"]: one["sha256"] for one in lane["suite"]["prompts"]}
    other = [row["prompt"] for row in rows if asked.get(row["prompt"]) != row["prompt_sha256"]]
    if twice:
        return f"more than once: {', '.join(twice)}"
    return f"not the suite's text: {', '.join(other)}" if other else None


def fresh_server(lane: Lane, rows: Rows) -> str | None:
    """A process that this lane started has the port that was asked, and it had answered nothing before."""
    process = (lane["identity"] or {}).get("process")
    if not process:
        return "which process answered is not known"
    if not process["listens"]:
        return "no process of this lane listens on the lane's port"
    used = {name: value for name, value in lane["metrics_at_start"].items() if value}
    return f"it had answered before: {used}" if used else None


def nothing_cached(lane: Lane, rows: Rows) -> str | None:
    """No prompt was taken from a cache; a server that does not say fails."""
    silent = [row["prompt"] for row in rows if row["cached_tokens"] is None]
    if silent:
        return f"cached_tokens is missing: {', '.join(silent)}"
    cached = [f"{row['prompt']} {row['cached_tokens']}" for row in rows if row["cached_tokens"] != 0]
    return f"cached tokens: {', '.join(cached)}" if cached else None


def enough_tokens(lane: Lane, rows: Rows) -> str | None:
    """Every row has the 100 tokens that its rate is taken over; a lane that is scored has no such rate."""
    if lane["window"] is None:
        return None
    few = [
        f"{row['prompt']} {(row['usage'] or {}).get('completion_tokens', 0)}"
        for row in rows
        if (row["usage"] or {}).get("completion_tokens", 0) < FEWEST_TOKENS
    ]
    return f"fewer than {FEWEST_TOKENS} tokens: {', '.join(few)}" if few else None


def tokens_timed(lane: Lane, rows: Rows) -> str | None:
    """Every token has a time of arrival."""
    unknown = [row["prompt"] for row in rows if row["token_source"] is None]
    return f"tokens without a time: {', '.join(unknown)}" if unknown else None


def tokens_spread(lane: Lane, rows: Rows) -> str | None:
    """The tokens of the window did not all arrive at once, as behind a proxy that holds them back: that is no rate."""
    if lane["window"] is None:
        return None
    at_once = []
    for row in rows:
        if row["token_source"] is None or row["fault"]:
            continue
        times = token_times(row)
        if len(times) >= WINDOW and times[WINDOW - 1] <= times[0]:
            at_once.append(row["prompt"])
    return f"{WINDOW} tokens at once: {', '.join(at_once)}" if at_once else None


def canaries_pass(lane: Lane, rows: Rows) -> str | None:
    """Every canary gave its exact answer every time."""
    canaries = lane["canaries"]
    if not canaries:
        return NOT_ASKED
    wrong = [
        f"{one['id']} {one['passed']} of {one['asked']}{_expected_and_found(one)}"
        for one in canaries
        if one["passed"] < one["asked"]
    ]
    return (
        f"wrong answers: {', '.join(wrong)}" if wrong or not all(one["asked"] for one in canaries) else None
    )


def _expected_and_found(canary: Mapping[str, Any]) -> str:
    """Of a wrong answer; lanes of the first ledgers did not write down what was expected."""
    if not canary.get("wrong"):
        return ""
    return f" (expected {_short(canary['expected'])}, found {_short(canary['wrong'][0])})"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= LONGEST else f"{line[:LONGEST]}...")


def identity_complete(lane: Lane, rows: Rows) -> str | None:
    """Everything that makes two lanes comparable was seen."""
    if lane["identity"] is None:
        return "nothing is known of what ran"
    missing = lane["identity_missing"]
    return f"missing: {', '.join(missing)}" if missing else None


def identity_as_declared(lane: Lane, rows: Rows) -> str | None:
    """What ran is what was declared."""
    return "; ".join(lane["identity_mismatches"]) or None


def knobs_read(lane: Lane, rows: Rows) -> str | None:
    """Every flag and variable that was set is read by something."""
    idle = [
        f"{one['knob']} {one['value']} is {one['state']} ({one['proof']})"
        for one in lane["activation"]
        if one["state"] not in ("read", "waived")
    ]
    return "; ".join(idle) or None


RULES: Mapping[str, Callable[[Lane, Rows], str | None]] = {
    "no-fault": no_fault,
    "prompts-done": prompts_done,
    "prompts-unique": prompts_unique,
    "prompts-once": prompts_once,
    "fresh-server": fresh_server,
    "nothing-cached": nothing_cached,
    "enough-tokens": enough_tokens,
    "tokens-timed": tokens_timed,
    "tokens-spread": tokens_spread,
    "canaries-pass": canaries_pass,
    "identity-complete": identity_complete,
    "identity-as-declared": identity_as_declared,
    "knobs-read": knobs_read,
}

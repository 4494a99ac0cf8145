"""One note a candidate: intent, files touched, builds, table of stages, verdict. Losses are kept like gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from verispec.lab.candidates.build import Build
from verispec.lab.candidates.candidate import Candidate
from verispec.lab.candidates.clean_copy import TouchedFile
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.secrets import content_shown

Record = dict[str, Any]


def archive(
    ledger: Ledger,
    candidate: Candidate,
    builds: Mapping[str, Build],
    logs: Mapping[str, str],
    experiment: Record,
) -> Record:
    """Keeps the note on a candidate whose ``experiment`` is over, and gives it. ``logs`` are digests of build logs."""
    record = {
        "kind": "candidate",
        "name": candidate.name,
        "intent": candidate.intent,
        "candidate_kind": candidate.kind,
        "fingerprint": candidate.fingerprint,
        "control": content_shown(candidate.control),
        "changed": content_shown(candidate.changed),
        "source": _source(candidate, builds),
        "builds": {name: one.record() for name, one in builds.items()},
        "build_logs": dict(logs),
        "experiment": experiment["experiment"],
        "began": experiment["began"],
        "table": stage_table(ledger, experiment["decisions"]),
        "verdict": experiment["verdicts"].get(candidate.name, {}).get("text", "not decided"),
        "reasons": experiment["verdicts"].get(candidate.name, {}).get("reasons", []),
    }
    ledger.add(record)
    return record


def stage_table(ledger: Ledger, decisions: Sequence[str]) -> list[Record]:
    """One line a decision: what each stage came to."""
    lines = []
    for digest in decisions:
        record = ledger.get(digest)
        decision = record["decision"]
        lines.append(
            {
                "stage": record["stage"],
                "control_lanes": decision["control_lanes"],
                "candidate_lanes": decision["candidate_lanes"],
                "effect_percent": decision["effect_percent"],
                "interval_percent": decision["interval_percent"],
                "shrunken_percent": decision["shrunken_percent"],
                "outputs": record["outputs"]["exactness"],
                "verdict": record["verdict"],
            }
        )
    return lines


def tried_before(ledger: Ledger, candidate: Candidate) -> list[Record]:
    """Notes on the same change, in order: the same patch whatever its base, or else the same settings."""
    patch = None if candidate.source is None else candidate.source.digest

    def same(record: Record) -> bool:
        source = record["source"]
        same_patch = patch is not None and source is not None and source["patch_sha256"] == patch
        return bool(same_patch or record["fingerprint"] == candidate.fingerprint)

    return [record for _, record in ledger.records("candidate") if same(record)]


def touched_text(files: Sequence[TouchedFile]) -> str:
    """Files for a note in words, in which ``lab ask`` finds them."""
    return ", ".join(
        one.path if one.added is None else f"{one.path} (+{one.added} -{one.removed})" for one in files
    )


def _source(candidate: Candidate, builds: Mapping[str, Build]) -> Record | None:
    source = candidate.source
    if source is None:
        return None
    patched = builds.get("patched")
    return {
        "repository": source.repository.name,
        "base": source.base if patched is None else patched.commit,
        "patch": source.patch,
        "patch_sha256": source.digest,
        "control": source.control,
        "recipe": content_shown(source.recipe.record()),
        "files": [] if patched is None else [one.record() for one in patched.files],
    }

"""Which strategies a draft artifact is for: what keeps each from drafting with it, by the artifact's own manifest."""

from __future__ import annotations

from collections.abc import Mapping

from verispec.artifacts.draft_manifest import KINDS, read_draft_manifest
from verispec.artifacts.resolve import resolve_model
from verispec.drafting.options import DRAFT_MODEL, Value
from verispec.drafting.requirements import Requirement, TargetFacts
from verispec.drafting.strategies import AUTO, BY_NAME
from verispec.engine.draft_artifacts import DraftArtifacts
from verispec.errors import UnsupportedError


def refusals(artifacts: DraftArtifacts, name: str, target: TargetFacts) -> dict[str, Requirement]:
    """What each strategy lacks that cannot draft with the artifact ``name``, which is opened where the backend runs it.

    Raises FetchError when ``name`` means nothing, ArtifactError for a file that is malformed.
    """
    try:
        kind = read_draft_manifest(resolve_model(name).path).kind
        missing = BY_NAME[kind].missing(target, {DRAFT_MODEL.name: name})
        if not missing:
            artifacts.open(name, (kind,))
    except UnsupportedError as error:
        wrong = _refusal(error.code, error.message, error.remedy)
        return dict.fromkeys((*KINDS, AUTO), wrong)
    others = _refusal(
        "wrong-kind", f"the draft artifact was admitted as {kind}", f"Use it with spec_mode {kind}."
    )
    lacking = {AUTO: missing[0]} if missing else {}
    return {**{one: others for one in KINDS if one != kind}, **lacking}


def _refusal(code: str, message: str, remedy: str) -> Requirement:
    return Requirement(code, message, remedy, _unmet)


def _unmet(target: TargetFacts, options: Mapping[str, Value]) -> bool:
    return False

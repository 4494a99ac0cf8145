"""The payload of one submission to the LocalMaxxing leaderboard, with its checks. It is shown and never sent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verispec.errors import OptionError
from verispec.lab.folders import without_folders
from verispec.lab.gate.rules import broken_names
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.secrets import arguments_shown

INTEGERS = ("contextLength", "batchSize", "promptTokens", "outputTokens")
TEXTS = ("hfId", "engineName", "engineVersion", "backend", "quantization", "engineFlags")
NUMBERS = ("tokSOut", "ttftMs")
HARDWARE = ("hwClass", "cpu", "ramGb", "os")
GPU_HARDWARE = ("gpuName", "gpuCount", "vramGb")
MEASURED = ("tokSOut", "ttftMs", "promptTokens", "outputTokens", "batchSize")
"""What a lane has measured, in whose place nothing else may stand."""


def payload(ledger: Ledger, lane: str, facts: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(payload, what is wrong with it) of one lane by its id.

    ``facts`` are what a lane does not know: hfId, backend, quantization, contextLength, notes, and how the site calls
    engine and hardware. The rate is the lane's median over whole answers; its prompt and output tokens are the medians
    over prompts, as integers. OptionError for facts that are among ``MEASURED``.
    """
    measured = sorted(set(facts) & set(MEASURED))
    if measured:
        raise OptionError(f"facts: expected only what a lane does not measure, found {measured[0]!r}")
    _, record = ledger.find(lane, "lane")
    rows = ledger.rows(record)
    content = {
        **_measured(record, rows),
        **{name: value for name, value in facts.items() if name != "hardware"},
    }
    content["hardware"] = {**_hardware(record), **facts.get("hardware", {})}
    return content, check(content, record)


def check(content: Mapping[str, Any], lane: Mapping[str, Any]) -> list[str]:
    """Everything that speaks against submitting it; empty when nothing does."""
    wrong = []
    if not lane["valid"]:
        failed = ", ".join(broken_names(lane["gate"]))
        wrong.append(f"the lane is invalid: {failed}")
    wrong += [f"{name}: expected an integer above zero" for name in INTEGERS if not _whole(content.get(name))]
    wrong += [f"{name}: expected a text" for name in TEXTS if not _text(content.get(name))]
    wrong += [f"{name}: expected a number above zero" for name in NUMBERS if not _positive(content.get(name))]
    if _text(content.get("hfId")) and str(content["hfId"]).count("/") != 1:
        wrong.append("hfId: expected OWNER/MODEL")
    hardware = content.get("hardware", {})
    needed = HARDWARE if not lane_gpus(lane) else (*HARDWARE, *GPU_HARDWARE)
    wrong += [f"hardware.{name}: expected a value" for name in needed if not hardware.get(name)]
    return wrong


def lane_gpus(lane: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The GPUs of the machine, of a lane that ran on one."""
    if str(lane["device"]).startswith("cpu"):
        return []
    found: list[Mapping[str, Any]] = ((lane["identity"] or {}).get("host") or {}).get("gpus", [])
    return found


def _measured(lane: Mapping[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    summary, identity = lane["summary"], lane["identity"] or {}
    rate, wait = summary["full"], summary["ttft"]
    prompts = sorted((row["usage"] or {}).get("prompt_tokens", 0) for row in rows)
    return {
        "engineName": lane["target"]["profile"],
        "engineVersion": identity.get("version"),
        "engineFlags": without_folders(" ".join(arguments_shown(lane["target"]["arguments"]))) or "none",
        "batchSize": 1,
        "promptTokens": int(prompts[len(prompts) // 2]) if prompts else 0,
        "outputTokens": int(summary["tokens"]["median"]) if summary["tokens"] else 0,
        "tokSOut": None if rate is None else round(rate["median"], 2),
        "ttftMs": None if wait is None else round(1000 * wait["median"], 1),
        "notes": f"median over {len(rows)} prompts of {lane['suite_name']}, one at a time; lane {lane['lane']}",
    }


def _hardware(lane: Mapping[str, Any]) -> dict[str, Any]:
    host = (lane["identity"] or {}).get("host") or {}
    facts = {
        "hwClass": "CPU_ONLY",
        "cpu": host.get("cpu"),
        "ramGb": round(host.get("memory_bytes", 0) / 2**30),
        "os": host.get("system"),
    }
    gpus = lane_gpus(lane)
    if gpus:
        memory = str(gpus[0].get("memory.total", "0")).split()[0]
        facts |= {
            "hwClass": "DISCRETE_GPU",
            "gpuName": gpus[0].get("name"),
            "gpuCount": len(str(lane["device"]).split(",")),
            "vramGb": round(float(memory) / 1024) if memory.replace(".", "").isdigit() else None,
        }
    return facts


def read_facts(path: Path) -> dict[str, Any]:
    """``facts`` from a TOML file."""
    import tomllib

    return tomllib.loads(path.read_text(encoding="utf-8"))


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())

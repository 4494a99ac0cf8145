"""Loading and generating takes at most 1.3 times the file, the keys and values, and 200 MB."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MEASURED = """
import json, sys
from verispec import load

with load(sys.argv[1], ctx=1024, threads=2) as model:
    cache = model.backend.memory.cache
    completion = model.generate("One two three, one two three, one", max_tokens=24, logprobs=1, temperature=0.5)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
peak = int(status["VmHWM"].split()[0]) * 1024
print(json.dumps({"cache": cache, "peak": peak, "tokens": len(completion.tokens)}))
"""
# VmHWM, not ru_maxrss: the latter keeps the peak of the process that started this one.


def test_peak_memory_of_loading_and_generating(smollm2_path: Path) -> None:
    command = [sys.executable, "-c", MEASURED, str(smollm2_path)]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert found["tokens"] > 0
    assert found["peak"] <= 1.3 * smollm2_path.stat().st_size + found["cache"] + 200e6

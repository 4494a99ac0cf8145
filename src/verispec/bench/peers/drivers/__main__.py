"""Serves one engine to a benchmark: ``python drivers MODULE``, in the environment of the engine's own package.

Reads one JSON request a line and answers each with one JSON line: ``load`` makes the module's ``Engine``, any other
operation is a method of it. Needs nothing of verispec.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any, TextIO


def serve(module: str, requests: TextIO, answers: TextIO) -> None:
    """Answers until the requests end. An engine's exception is an answer with the key ``error``."""
    engine: Any = None
    for line in requests:
        request = json.loads(line)
        operation = request.pop("operation")
        try:
            if operation == "load":
                engine = importlib.import_module(module).Engine(**request)
                answer = engine.describe()
            else:
                answer = getattr(engine, operation)(**request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
    if engine is not None:
        engine.close()


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not stand between the answers
    serve(sys.argv[1], sys.stdin, answers)

"""What a server says about itself over HTTP: options, metrics, version; and what it has written into its log."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from verispec.lab.client.fetch import fetch
from verispec.lab.launch.server_log import kept_log
from verispec.lab.targets.profile import Profile
from verispec.lab.targets.source import Source, look_up

SECONDS = 30.0
SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(\{.*\})?\s+([-+0-9.eEinfNa]+)")


class ServerReport:
    """Reads one server. ``binary`` is the program that prints its version; None for a server that runs elsewhere."""

    def __init__(self, profile: Profile, url: str, log: Path | None, binary: str | None) -> None:
        self._profile = profile
        self._url = url
        self._log = log
        self._binary = binary
        self.options: dict[str, Any] = {}

    def read_options(self) -> None:
        """Asks for every report of the profile; one that the server does not give is left out."""
        for name, path in self._profile.options.items():
            text = self._get(path)
            try:
                if text is not None:
                    self.options[name] = json.loads(text)
            except ValueError:
                continue

    def metrics(self) -> dict[str, float]:
        """The server's samples by name, summed over their labels; empty where it has none."""
        text = self._get(self._profile.metrics) if self._profile.metrics else None
        return parse_samples(text or "")

    def value(self, source: Source | None) -> Any:
        """What ``source`` says; None when it says nothing."""
        if source is None:
            return None
        if source.place == "options":
            return look_up(self.options, source.path)
        if source.place == "log":
            return self._in_log(source.path)
        return self._printed(source.path) if source.place == "command" else None

    def _in_log(self, pattern: str) -> str | None:
        """The first group where ``pattern`` matches for the last time; the whole match without a group."""
        text = kept_log(self._log).decode(errors="replace") if self._log else ""
        found = None
        for found in re.finditer(pattern, text):  # noqa: B007
            pass
        return None if found is None else found.group(1 if found.re.groups else 0)

    def _printed(self, arguments: str) -> str | None:
        if self._binary is None:
            return None
        try:
            done = subprocess.run(
                [self._binary, *arguments.split()],
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return (done.stdout + done.stderr).strip() or None

    def _get(self, path: str | None) -> str | None:
        return fetch(f"{self._url}{path}", SECONDS)


def parse_samples(text: str) -> dict[str, float]:
    """Prometheus' text format: name to value, summed over labels."""
    samples: dict[str, float] = {}
    for line in text.splitlines():
        match = SAMPLE.match(line)
        if match:
            try:
                samples[match[1]] = samples.get(match[1], 0.0) + float(match[3])
            except ValueError:
                continue
    return samples

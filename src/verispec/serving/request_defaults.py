"""What the server decides for requests that leave it open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verispec.drafting.requirements import TargetFacts
from verispec.drafting.resolution import resolve
from verispec.engine.request_options import DEFAULT_SPEC_MODE, RequestOptions
from verispec.errors import VerispecError

SPECULATION = "spec_"
OF_A_DRAFTER = ("strict_drafter", "drafter_deadline")


class RequestDefaults:
    """Options of requests that do not name them, checked against the target once.

    Raises OptionError or UnsupportedError when no request could run with them.
    """

    def __init__(self, options: Mapping[str, Any], target: TargetFacts) -> None:
        self.resolution = RequestOptions.parse(options, target).resolution
        self.options = dict(options)
        self._target = target

    def under(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a request that gave ``given``: its own, and the server's where it has none.

        A request that chooses another strategy gets of the server's speculation options those which that strategy
        reads: the rest were chosen for the server's own.
        """
        asked = {name: value for name, value in given.items() if value is not None}
        defaults = {name: value for name, value in self.options.items() if name not in asked}
        mode = asked.get("spec_mode")
        if mode is not None and mode != self.options.get("spec_mode", DEFAULT_SPEC_MODE):
            defaults = {name: value for name, value in defaults.items() if self._reads(mode, name, value)}
        return {**defaults, **asked}

    def _reads(self, mode: Any, name: str, value: Any) -> bool:
        if name in OF_A_DRAFTER:
            return bool(mode != "off")
        if not name.startswith(SPECULATION):
            return True
        try:
            resolve(mode, {name: value}, self._target)
        except (VerispecError, TypeError):
            return False
        return True

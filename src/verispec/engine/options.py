"""What one generation may ask for, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from verispec.errors import OptionError

MAX_ALTERNATIVES = 20


@dataclass(frozen=True, slots=True)
class SamplingParameters:
    """How the next token is chosen from the target's logits.

    ``temperature`` 0 is greedy. Filters act in the order penalties and bias, temperature, top_k, top_p, min_p.
    ``repetition_penalty`` looks at prompt and output, ``presence_penalty`` and ``frequency_penalty`` at the output
    alone (OpenAI). ``seed`` None draws one, which the result records. ``choice`` numbers parallel answers to one
    prompt. ``logprobs`` is the number of alternatives to report beside each token's own log-probability (of the
    model's unmodified distribution); None reports none.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    choice: int = 0
    logprobs: int | None = None

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature, 0.0, 100.0)
        check_integer("top_k", self.top_k, 0, 2**31 - 1)
        check_number("top_p", self.top_p, 0.0, 1.0)
        if self.top_p == 0.0:
            raise OptionError("top_p: expected a number over 0 and at most 1, found 0")
        check_number("min_p", self.min_p, 0.0, 1.0)
        check_number("repetition_penalty", self.repetition_penalty, 0.01, 100.0)
        check_number("presence_penalty", self.presence_penalty, -100.0, 100.0)
        check_number("frequency_penalty", self.frequency_penalty, -100.0, 100.0)
        check_integer("choice", self.choice, 0, 2**31 - 1)
        if self.seed is not None:
            check_integer("seed", self.seed, 0, 2**64 - 1)
        if self.logprobs is not None:
            check_integer("logprobs", self.logprobs, 0, MAX_ALTERNATIVES)
        if not isinstance(self.logit_bias, Mapping):
            raise OptionError(f"logit_bias: expected token ids to numbers, found {self.logit_bias!r}")
        for token, bias in self.logit_bias.items():
            check_integer("logit_bias token", token, 0, 2**31 - 1)
            check_number(f"logit_bias[{token}]", bias, -1e9, 1e9)
        object.__setattr__(self, "logit_bias", dict(self.logit_bias))  # the caller's own may change later

    @property
    def greedy(self) -> bool:
        """Whether the choice is the greatest logit, whatever else acts on the logits."""
        return self.temperature == 0.0

    @property
    def adjusts_logits(self) -> bool:
        """Whether anything acts on the logits before the choice."""
        return bool(
            self.repetition_penalty != 1.0
            or self.presence_penalty
            or self.frequency_penalty
            or self.logit_bias
        )

    @property
    def needs_logits(self) -> bool:
        """Whether the target's own argmax is not enough."""
        return not self.greedy or self.adjusts_logits or self.logprobs is not None

    def check_vocabulary(self, vocabulary: int) -> None:
        """Raises OptionError for a biased token that the target, with ids below ``vocabulary``, does not have."""
        for token in self.logit_bias:
            check_integer("logit_bias token", token, 0, vocabulary - 1)

    def as_dict(self) -> dict[str, Any]:
        """The fields, as a receipt records them."""
        names = SamplingParameters.__slots__
        values = {name: getattr(self, name) for name in names}
        values["logit_bias"] = {str(token): bias for token, bias in sorted(self.logit_bias.items())}
        return values


@dataclass(frozen=True, slots=True)
class GenerationLimits:
    """When a generation ends: ``max_tokens`` (None: the context's end; 0 only scores a
    prompt), stop strings, and whether end tokens end it."""

    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    shown_tokens: tuple[int, ...] = ()
    """Control tokens whose names the text shows; all others are invisible in it."""

    def __post_init__(self) -> None:
        if self.max_tokens is not None:
            check_integer("max_tokens", self.max_tokens, 0, 2**31 - 1)
        for stop in self.stop:
            if not isinstance(stop, str) or not stop:
                raise OptionError(f"stop: expected non-empty strings, found {stop!r}")
            if any("\ud800" <= character <= "\udfff" for character in stop):
                raise OptionError(f"stop: expected Unicode, found half a surrogate pair in {stop!r}")
        for token in self.shown_tokens:
            check_integer("shown_tokens", token, 0, 2**31 - 1)
        if not isinstance(self.ignore_eos, bool):
            raise OptionError(f"ignore_eos: expected true or false, found {self.ignore_eos!r}")


def check_number(name: str, value: object, low: float, high: float) -> None:
    """Raises OptionError, naming the option, unless ``value`` is a number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise OptionError(f"{name}: expected a finite number, found {value!r}")
    if not low <= value <= high:
        raise OptionError(f"{name}: expected {low:g} to {high:g}, found {value}")


def check_integer(name: str, value: object, low: int, high: int) -> None:
    """Raises OptionError, naming the option, unless ``value`` is an integer from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise OptionError(f"{name}: expected an integer, found {value!r}")
    if not low <= value <= high:
        raise OptionError(f"{name}: expected {low} to {high}, found {value}")

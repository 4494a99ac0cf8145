"""A replica as the front sees it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Protocol

from verispec.errors import VerispecError
from verispec.serving.replicas.messages import ForwardedRequest, Message
from verispec.serving.replicas.replica import Sign


class ReplicaLostError(VerispecError):
    """A replica that died, or does not answer."""


class Connection(Protocol):
    """The way to one replica's process, whichever process it is at the moment."""

    async def ask(self, method: str, *arguments: Any, seconds: float) -> Any:
        """The result of a method of ``Replica``. Raises ReplicaLostError when there is none after ``seconds``."""

    def answer(self, request: ForwardedRequest) -> AsyncGenerator[Message, None]:
        """``Replica.answer``; closing it hangs up. Raises ReplicaLostError when the replica dies."""


@dataclass(slots=True)
class Member:
    """``sign`` is the last sign of life; ``lost`` says why there is none now."""

    number: int
    connection: Connection
    sign: Sign | None = None
    lost: str | None = "starting"

    @property
    def serves(self) -> bool:
        """Whether it may be given requests."""
        return self.lost is None

    @property
    def status(self) -> str:
        return "ok" if self.lost is None else self.lost

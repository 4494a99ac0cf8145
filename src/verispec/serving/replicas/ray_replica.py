"""A replica reached through Ray Serve's handle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from ray.exceptions import ActorUnavailableError, RayActorError, TaskCancelledError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle

from verispec.serving.replicas.member import ReplicaLostError
from verispec.serving.replicas.messages import ForwardedRequest, Message

_GONE = (RayActorError, ActorUnavailableError, TaskCancelledError, RayServeException)


class RayReplica:
    """A ``Connection`` (see ``member``). The handle leads to the replica's process, also after a restart."""

    def __init__(self, handle: DeploymentHandle) -> None:
        self._handle = handle

    async def ask(self, method: str, *arguments: Any, seconds: float) -> Any:
        response = getattr(self._handle, method).remote(*arguments)
        try:
            async with asyncio.timeout(seconds):
                return await response
        except TimeoutError:
            response.cancel()
            raise ReplicaLostError(f"no answer to {method} for {seconds:g} s") from None
        except _GONE as error:
            raise ReplicaLostError(type(error).__name__) from error

    async def answer(self, request: ForwardedRequest) -> AsyncGenerator[Message, None]:
        response = self._handle.options(method_name="answer", stream=True).remote(request)
        over = False
        try:
            async for message in response:
                yield message
            over = True
        except _GONE as error:
            over = True
            raise ReplicaLostError(type(error).__name__) from error
        finally:
            if not over:
                response.cancel()

"""One streamed answer: the request sent, every read stamped with its time, nothing interpreted before it is stamped.

Written on ``http.client``, whose reads cost microseconds: the client shares the machine with the server it measures.
"""

from __future__ import annotations

import http.client
import json
import math
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from verispec.lab.client.clocks import Clocks, Instant
from verispec.lab.client.events import Ending, EventBuffer, StreamEvent, read_event
from verispec.lab.faults import LaneFaultError

READ_BYTES = 65536
DONE = b"[DONE]"


@dataclass(slots=True)
class Answer:
    """What came back, as far as it came. ``fault`` says why it did not come to its end; None when it did."""

    began: Instant
    ended: Instant
    status: int | None = None
    events: list[StreamEvent] = field(default_factory=list)
    usage: Mapping[str, Any] | None = None
    timings: Mapping[str, Any] | None = None
    fault: LaneFaultError | None = None

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events)


class StreamClient:
    """Asks one server, one connection a request.

    ``silence`` is how many seconds it may send nothing, ``longest`` how many an answer may take, comments included.
    """

    def __init__(
        self,
        url: str,
        endpoint: str,
        silence: float,
        longest: float = math.inf,
        clocks: Clocks | None = None,
    ) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port
        self._secure = parts.scheme == "https"
        self._path = parts.path.rstrip("/").removesuffix("/v1") + endpoint
        self._silence = silence
        self._longest = longest
        self._headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        self.clocks = clocks or Clocks()

    def ask(self, body: Mapping[str, Any]) -> Answer:
        """Sends ``body`` with ``stream`` set. Never raises for what the server does: that is the answer's fault."""
        content = json.dumps({**body, "stream": True}).encode()
        began = self.clocks.now()
        answer = Answer(began, began)
        connection = self._connection()
        try:
            connection.request("POST", self._path, content, self._headers)
            response = connection.getresponse()
            answer.status = response.status
            if response.status == 200:
                self._read(response, answer)
            else:
                detail = response.read(2000).decode(errors="replace")
                answer.fault = LaneFaultError("server-refused", f"status {response.status}: {detail[:300]}")
        except LaneFaultError as fault:
            answer.fault = fault
        except TimeoutError:
            answer.fault = LaneFaultError("server-silent", f"nothing for {self._silence:g} s")
        except (OSError, http.client.HTTPException) as error:
            answer.fault = LaneFaultError("stream-broken", f"{type(error).__name__}: {error}")
        finally:
            connection.close()
            answer.ended = self.clocks.now()
        return answer

    def _connection(self) -> http.client.HTTPConnection:
        if self._secure:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._silence, context=context)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._silence)

    def _read(self, response: http.client.HTTPResponse, answer: Answer) -> None:
        began = answer.began.monotonic
        buffer = EventBuffer()
        while True:
            part = response.read1(READ_BYTES)
            offset = self.clocks.monotonic() - began
            if not part:
                raise LaneFaultError("stream-broken", "the connection ended before the answer did")
            if offset > 1e9 * self._longest:
                raise LaneFaultError("server-too-slow", f"no end after {self._longest:g} s")
            for data in buffer.add(part):
                if data == DONE:
                    return
                events, ending = read_event(data, offset)
                answer.events += events
                _keep(answer, ending)


def _keep(answer: Answer, ending: Ending) -> None:
    """The last usage and timings that were sent are those of the whole answer."""
    answer.usage = ending.usage or answer.usage
    answer.timings = ending.timings or answer.timings

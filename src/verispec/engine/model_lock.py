"""The lock of a model's backend, which finalisers may need too."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class ModelLock:
    """Held by whoever uses the backend; the thread that holds it may take it again.

    A finaliser runs wherever the collector happens to, also in a thread that holds another lock for which the holder
    of this one waits. So it never waits: what it cannot do at once is left to whoever next takes the lock.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._left: deque[Callable[[], None]] = deque()

    def finalise(self, close: Callable[[], None]) -> None:
        """Calls ``close`` under the lock, now or when it is next taken."""
        if not self._lock.acquire(blocking=False):
            self._left.append(close)
            return
        try:
            close()
        finally:
            self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            while self._left:
                self._left.popleft()()
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._lock.release()

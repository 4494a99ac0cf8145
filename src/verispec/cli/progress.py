"""Progress bars on standard error: for fetching a model, and for counting cases. Silent where it is no terminal."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


class ProgressBar:
    """Shows the stages of a pull. A context manager; the bar goes when the block ends."""

    def __init__(self, name: str) -> None:
        console = Console(stderr=True)
        self.name = name
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task: TaskID | None = None

    def __enter__(self) -> ProgressBar:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def waiting(self) -> None:
        self.progress.console.print(f"{self.name}: another process is fetching it; waiting")

    def begin(self, stage: str, total: int) -> None:
        if self.task is not None:
            self.progress.remove_task(self.task)
        self.task = self.progress.add_task(f"{stage} {self.name}", total=total)

    def advance(self, done: int) -> None:
        if self.task is not None:
            self.progress.update(self.task, completed=done)


class CountBar:
    """Counts finished cases on standard error; silent where that is not a terminal. A context manager."""

    def __init__(self, name: str) -> None:
        console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.progress.add_task(name, total=None)

    def __enter__(self) -> CountBar:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def update(self, done: int, total: int) -> None:
        self.progress.update(self.task, completed=done, total=total)

    def stage(self, name: str, done: int, total: int) -> None:
        self.progress.update(self.task, description=name, completed=done, total=total)


class StageBar:
    """Shows the stages of long work on standard error: a bar on a terminal, elsewhere a line a minute for a log.

    A context manager.
    """

    SECONDS_BETWEEN_LINES = 60.0

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[line]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._said = float("-inf")

    def __enter__(self) -> StageBar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, stage: str, done: int, total: int, line: str) -> None:
        """``stage`` has come to ``done`` of ``total``; ``line`` says more about it."""
        begun = stage not in self._tasks
        if begun:
            self._tasks[stage] = self._progress.add_task(stage, total=total, line=line)
        self._progress.update(self._tasks[stage], completed=done, total=total, line=line)
        if self._console.is_terminal:
            return
        now = time.monotonic()
        if begun or done == total or now - self._said > self.SECONDS_BETWEEN_LINES:
            self._said = now
            self._console.print(
                f"{stage} {done}/{total} {line}", markup=False, highlight=False, soft_wrap=True
            )

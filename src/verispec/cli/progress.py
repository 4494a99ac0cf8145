"""Progress bars on standard error: for fetching a model, and for counting cases. Silent where it is no terminal."""

from __future__ import annotations

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

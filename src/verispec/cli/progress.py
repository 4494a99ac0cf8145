"""A progress bar on standard error for fetching a model; silent where standard error is not a terminal."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn


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

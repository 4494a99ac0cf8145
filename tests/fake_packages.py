"""A model in two wheels, for tests of pulling."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from verispec.artifacts.catalog import CatalogModel, WheelFile
from verispec.artifacts.pull import Quiet

PARTS = (b"first part " * 5000, b"second part " * 4000)
LICENCE = b"Do as you like."
DIGEST = hashlib.sha256(b"".join(PARTS)).hexdigest()


def make_wheel(folder: Path, package: str, files: dict[str, bytes]) -> Path:
    """A wheel that pip accepts, holding ``files``."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{package}-1.0-py3-none-any.whl"
    info = f"{package}-1.0.dist-info"
    about = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**files, **about}.items():
            archive.writestr(name, content)
    return path


def small_model(digest: str = DIGEST) -> CatalogModel:
    wheels = ("verispec-test-part1==1.0", "verispec-test-part2==1.0")
    return CatalogModel(
        name="test-model",
        title="a model for tests",
        sha256=digest,
        parts=tuple(
            WheelFile(wheels[index], f"part{index + 1}/data", len(part), 500)
            for index, part in enumerate(PARTS)
        ),
        documents=(WheelFile(wheels[0], "part1/LICENCE", len(LICENCE), 500),),
        licence="none",
    )


class Recorder(Quiet):
    """Remembers what a pull told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def waiting(self) -> None:
        self.told.append("waiting")

    def begin(self, stage: str, total: int) -> None:
        self.told.append((stage, total))

    def advance(self, done: int) -> None:
        self.told.append(done)

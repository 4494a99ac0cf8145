"""A suite's file by its name: one of verispec's, one of the user's folder, or a path."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from verispec.errors import OptionError
from verispec.lab.home import lab_home


def suite_text(
    name: str, ending: str, home: Path | None = None, known: Sequence[str] = ()
) -> tuple[str, str]:
    """The text of the suite ``name``, a path that ends in ``ending``, such as ``.toml``, or a name; and what errors
    call it: the file, where it is the user's own.

    The names of verispec win over those in ``suites/`` of the lab's folder, so that a name means the same everywhere; a
    name leads into no other folder. Raises OptionError when it is none, with the names that are ``known`` to the caller
    (all whose files have this ending without them).
    """
    if Path(name).suffix == ending:
        return _read(Path(name))
    names = suite_names(ending, home)
    if name not in names:
        expected = ", ".join(known or names)
        raise OptionError(f"suite: expected one of {expected}, or a {ending} file, found {name!r}")
    inside = resources.files(__package__) / "data" / f"{name}{ending}"
    if inside.is_file():
        return inside.read_text(encoding="utf-8"), f"suite {name}"
    return _read(_own_folder(home) / f"{name}{ending}")


def _read(path: Path) -> tuple[str, str]:
    if not path.is_file():
        raise OptionError(f"suite: expected a file, found none at {path}")
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: expected text in UTF-8, found {error}") from error


def suite_names(ending: str, home: Path | None = None) -> list[str]:
    """The names of all suites whose files end in ``ending``."""
    folder = resources.files(__package__) / "data"
    names = {entry.name.removesuffix(ending) for entry in folder.iterdir() if entry.name.endswith(ending)}
    own = _own_folder(home)
    if own.is_dir():
        names |= {entry.stem for entry in own.iterdir() if entry.suffix == ending}
    return sorted(names)


def _own_folder(home: Path | None) -> Path:
    return lab_home(home) / "suites"

"""An SQLite index over the ledger, for questions. It holds nothing that the evidence does not."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from verispec.lab.ledger.brief import brief
from verispec.lab.ledger.journal import Entry

VERSION = 3
TABLES = """
CREATE TABLE state (version INTEGER, count INTEGER, chain TEXT);
CREATE TABLE records (
  sequence INTEGER PRIMARY KEY, digest TEXT, time REAL, kind TEXT, name TEXT, experiment TEXT, arm TEXT, stage TEXT,
  valid INTEGER, verdict TEXT, words TEXT, brief TEXT
);
CREATE INDEX by_digest ON records (digest);
CREATE INDEX by_name ON records (name);
CREATE INDEX by_experiment ON records (experiment);
CREATE INDEX by_kind ON records (kind);
"""
WORDS = (
    "name",
    "experiment",
    "arm",
    "intent",
    "notes",
    "target",
    "targets",
    "suite_name",
    "verdict",
    "candidates",
)


class Index:
    """One file, made when it is first needed and again when it is damaged."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def state(self) -> tuple[int, str] | None:
        """(entries indexed, chain after them); None where there is no usable index."""
        if not self._path.exists():
            return None
        try:
            with self._open() as connection:
                row = connection.execute("SELECT version, count, chain FROM state").fetchone()
        except sqlite3.DatabaseError:
            return None
        return None if row is None or row[0] != VERSION else (int(row[1]), str(row[2]))

    def start_again(self) -> None:
        """An empty index in place of whatever is there."""
        for path in (self._path, self._path.with_name(self._path.name + "-journal")):
            path.unlink(missing_ok=True)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._open() as connection:
            connection.executescript(TABLES)
            connection.execute("INSERT INTO state VALUES (?, 0, '')", (VERSION,))

    def add(self, entries: Iterable[tuple[Entry, dict[str, Any]]]) -> None:
        """Entries with their records, in one transaction with the state; one that is there stays one."""
        with self._open() as connection:
            for entry, record in entries:
                row = _row(entry, record)
                connection.execute(f"INSERT OR REPLACE INTO records VALUES ({','.join('?' * len(row))})", row)
                connection.execute("UPDATE state SET count = ?, chain = ?", (entry.sequence + 1, entry.chain))

    def matching(self, name: str, kind: str | None = None) -> list[str]:
        """Digests of records whose digest begins with ``name`` or that are named so, a lane before its beginning."""
        digests = self._digests(
            "(name = ? OR digest LIKE ? || '%')", (name, name if len(name) >= 6 else "none"), kind
        )
        return digests or self._digests("name LIKE ? || '%'", (name,), kind)

    def with_words(self, words: Sequence[str], kind: str) -> list[str]:
        """Digests of records in which every word occurs, whatever its case, in order."""
        conditions = " AND ".join(["words LIKE '%' || ? || '%'"] * len(words)) or "1"
        return self._digests(f"({conditions})", tuple(word.lower() for word in words), kind)

    def of_experiment(self, experiment: str, kind: str) -> list[str]:
        """Digests of an experiment's records of one kind, in order."""
        return self._digests("experiment = ?", (experiment,), kind)

    def lanes(self, arm: str, suite: str) -> list[str]:
        """Digests of all lanes of an arm that were asked ``suite``, in order."""
        return self._digests(
            "arm = ? AND words LIKE '%' || ? || '%'", (arm, json.dumps(suite).lower()), "lane"
        )

    def all(self, kind: str) -> list[str]:
        """Digests of all records of one kind, in order."""
        return self._digests("1", (), kind)

    def briefs(
        self, kind: str, experiment: str | None = None, newest: int = -1, skipped: int = 0
    ) -> list[dict[str, Any]]:
        """What lists show of the records of one kind, the newest first: ``newest`` at most, after ``skipped``."""
        condition, values = "kind = ?", [kind]
        if experiment is not None:
            condition, values = "kind = ? AND experiment = ?", [kind, experiment]
        query = f"SELECT brief FROM records WHERE {condition} ORDER BY sequence DESC LIMIT ? OFFSET ?"
        with self._open() as connection:
            rows = connection.execute(query, (*values, newest, skipped)).fetchall()
        return [json.loads(row[0]) for row in rows]

    def count(self, kind: str) -> int:
        """How many records of one kind there are."""
        with self._open() as connection:
            return int(
                connection.execute("SELECT COUNT(*) FROM records WHERE kind = ?", (kind,)).fetchone()[0]
            )

    def _digests(self, condition: str, values: tuple[Any, ...], kind: str | None) -> list[str]:
        restricted = f"{condition} AND kind = ?" if kind else condition
        query = f"SELECT digest FROM records WHERE {restricted} ORDER BY sequence"
        with self._open() as connection:
            rows = connection.execute(query, (*values, kind) if kind else values).fetchall()
        return list(dict.fromkeys(row[0] for row in rows))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection for one transaction."""
        with closing(sqlite3.connect(self._path, timeout=30)) as connection, connection:
            yield connection


def _row(entry: Entry, record: dict[str, Any]) -> tuple[Any, ...]:
    """The columns of a record; ``words`` are all that a question may ask for."""
    words = " ".join(json.dumps(record[name], ensure_ascii=False) for name in WORDS if record.get(name))
    valid = record.get("valid")
    return (
        entry.sequence,
        entry.digest,
        entry.time,
        entry.kind,
        record.get("lane") or record.get("experiment") or record.get("name"),
        record.get("experiment"),
        record.get("arm"),
        record.get("stage"),
        None if valid is None else int(valid),
        record.get("verdict"),
        words.lower(),
        json.dumps(brief(record)),
    )

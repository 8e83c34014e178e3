"""Pinning: a tool that changed since the host approved it is held back, or reported.

A server can change what a tool says and takes after the host has looked at it. `PinStore` remembers a fingerprint of
each tool's whole definition as it was approved, and the definition itself, so that a change can be shown.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, Literal, TypeAlias

from conduit_actors.errors import ConfigurationError, bounded

OnChange: TypeAlias = Literal["block", "warn"]
Change: TypeAlias = Literal["new", "changed", "unknown"]

_PARTS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta")
_MAX_DIFFERENCE = 4_000
_MAX_LINES = 2_000
_WORDS: dict[Change, str] = {
    "new": "is new and not approved yet",
    "changed": "changed since it was approved",
    "unknown": "cannot be compared with the approved one",
}
_BUSY_SECONDS = 5.0

_TABLE = """
CREATE TABLE IF NOT EXISTS pins (
    server_id TEXT NOT NULL, tool TEXT NOT NULL, fingerprint TEXT NOT NULL, definition TEXT NOT NULL,
    PRIMARY KEY (server_id, tool)
)"""


@dataclass(frozen=True, slots=True)
class PinFinding:
    """A tool whose definition is not the approved one.

    Attributes:
        kind: "changed", "new" for one that was never approved, "unknown" if the store cannot be used.
        difference: what changed, as a unified diff of the two definitions; at most 4,000 characters.
        fingerprint: of the definition as it is now.
        held: the tool is not offered and cannot be called until it is approved.
    """

    server_id: str
    tool: str
    kind: Change
    difference: str = field(repr=False)
    fingerprint: str
    held: bool

    @property
    def reason(self) -> str:
        """One line for a status or a model."""
        held = "; it is held back until the host approves it" if self.held else ""
        return f"its definition {_WORDS[self.kind]}{held}"


class PinStore:
    """Approved tool definitions, in a SQLite file that survives restarts and may be shared by processes.

    A tool that is seen for the first time is approved as it is, unless `hold_new` says to hold it.

    Args:
        path: the file; ":memory:" keeps the pins as long as this object.
        on_change: "block" holds a changed tool back, "warn" only reports it.
        hold_new: hold back tools that were never approved.

    Raises:
        ConfigurationError: the file cannot be opened as a pin store, or `on_change` is something else.
    """

    def __init__(
        self, path: str | PathLike[str] = ":memory:", *, on_change: OnChange = "block", hold_new: bool = False
    ) -> None:
        if on_change not in ("block", "warn"):
            raise ConfigurationError(f"PinStore.on_change is 'block' or 'warn', not {on_change!r}")
        self.on_change: OnChange = on_change
        self.hold_new = hold_new
        self._lock = threading.Lock()
        try:
            self._database = sqlite3.connect(fspath(path), timeout=_BUSY_SECONDS, check_same_thread=False)
            with self._database:
                self._database.execute(_TABLE)
        except sqlite3.Error as error:
            raise ConfigurationError(f"the pin store {fspath(path)!r} cannot be opened: {error}") from error

    def __repr__(self) -> str:
        return f"PinStore(on_change={self.on_change!r}, hold_new={self.hold_new!r})"

    def check(self, server_id: str, tools: Sequence[Mapping[str, Any]]) -> list[PinFinding]:
        """What differs from the approved definitions; tools seen for the first time are pinned, unless held.

        Raises:
            sqlite3.Error: the file cannot be read or written.
        """
        findings: list[PinFinding] = []
        unseen: list[tuple[str, str, str, str]] = []
        with self._lock, self._database:
            pinned = self._pinned(server_id)
            for tool in tools:
                name = str(tool["name"])
                print_ = fingerprint(tool)
                known = pinned.get(name)
                if known is None and not self.hold_new:
                    unseen.append((server_id, name, print_, _text(tool)))
                elif known is None:
                    findings.append(
                        PinFinding(server_id, name, "new", _difference("{}", _text(tool)), print_, held=True)
                    )
                elif known[0] != print_:
                    shown = _difference(known[1], _text(tool))
                    findings.append(
                        PinFinding(server_id, name, "changed", shown, print_, held=self.on_change == "block")
                    )
            # Another process may have pinned one since we looked; the first one counts.
            self._database.executemany("INSERT OR IGNORE INTO pins VALUES (?, ?, ?, ?)", unseen)
        return findings

    def approve(self, server_id: str, tool: Mapping[str, Any]) -> None:
        """Pin a tool's definition as it is now.

        Raises:
            sqlite3.Error: the file cannot be written.
        """
        row = (server_id, str(tool["name"]), fingerprint(tool), _text(tool))
        with self._lock, self._database:
            self._database.execute("INSERT OR REPLACE INTO pins VALUES (?, ?, ?, ?)", row)

    def forget(self, server_id: str, tool: str | None = None) -> None:
        """Remove one pin, or all of a server: what is seen next counts as seen for the first time."""
        with self._lock, self._database:
            self._database.execute(
                "DELETE FROM pins WHERE server_id = ? AND (? IS NULL OR tool = ?)", (server_id, tool, tool)
            )

    def pins(self, server_id: str) -> dict[str, str]:
        """Approved tools of a server, each with its fingerprint."""
        with self._lock:
            return {name: known[0] for name, known in self._pinned(server_id).items()}

    def close(self) -> None:
        """Close the file; the store cannot be used after."""
        with self._lock:
            self._database.close()

    def _pinned(self, server_id: str) -> dict[str, tuple[str, str]]:
        rows = self._database.execute(
            "SELECT tool, fingerprint, definition FROM pins WHERE server_id = ?", (server_id,)
        )
        return {str(tool): (str(print_), str(definition)) for tool, print_, definition in rows}


def fingerprint(tool: Mapping[str, Any]) -> str:
    """A hash of name, title, description, schemas, annotations and ``_meta``; the order of keys does not matter."""
    parts = {part: tool[part] for part in _PARTS if tool.get(part) is not None}
    encoded = json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(encoded).hexdigest()


def _text(tool: Mapping[str, Any]) -> str:
    parts = {part: tool[part] for part in _PARTS if tool.get(part) is not None}
    # ASCII: a reader of the difference has to see invisible characters.
    return json.dumps(parts, sort_keys=True, indent=2)


def _difference(before: str, after: str) -> str:
    old, new = before.splitlines()[:_MAX_LINES], after.splitlines()[:_MAX_LINES]
    lines = difflib.unified_diff(old, new, "approved", "now", lineterm="", n=1)
    return bounded("\n".join(lines), _MAX_DIFFERENCE)

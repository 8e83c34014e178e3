"""`ApprovalStore`: what was allowed "always", in a file that survives restarts."""

from __future__ import annotations

import json
import sqlite3
import threading
from os import PathLike, fspath
from typing import Protocol, TypeAlias

from conduit_actors.errors import ConfigurationError

ApprovalKey: TypeAlias = tuple[str | None, str, str]
"""Principal, server id and the server's own name of the tool."""

_BUSY_SECONDS = 5.0
_TABLE = "CREATE TABLE IF NOT EXISTS approvals (approved TEXT PRIMARY KEY) WITHOUT ROWID"


class Remembered(Protocol):
    """Where approvals are remembered: an `ApprovalStore`, a plain set, or the host's own."""

    def __contains__(self, key: object, /) -> bool: ...

    def add(self, key: ApprovalKey, /) -> None: ...


class ApprovalStore:
    """Approvals in a SQLite file. It may be shared by hubs and by processes, and used from any thread.

    Args:
        path: the file; ":memory:" keeps them as long as this object.

    Raises:
        ConfigurationError: the file cannot be opened.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self._lock = threading.Lock()
        try:
            self._database = sqlite3.connect(fspath(path), timeout=_BUSY_SECONDS, check_same_thread=False)
            with self._database:
                self._database.execute(_TABLE)
        except sqlite3.Error as error:
            raise ConfigurationError(f"the approval store {fspath(path)!r} cannot be opened: {error}") from error

    def __contains__(self, key: object, /) -> bool:
        with self._lock:
            found = self._database.execute("SELECT 1 FROM approvals WHERE approved = ?", (json.dumps(key),))
            return found.fetchone() is not None

    def add(self, key: ApprovalKey, /) -> None:
        """Remember an approval."""
        with self._lock, self._database:
            self._database.execute("INSERT OR IGNORE INTO approvals VALUES (?)", (json.dumps(key),))

    def forget(self, principal: str | None, server_id: str, tool: str) -> None:
        """Take an approval back; the next call is asked for again."""
        with self._lock, self._database:
            self._database.execute(
                "DELETE FROM approvals WHERE approved = ?", (json.dumps((principal, server_id, tool)),)
            )

    def close(self) -> None:
        """Close the file; the store cannot be used after."""
        with self._lock:
            self._database.close()

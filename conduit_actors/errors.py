"""Every failure that a caller or a model can see, one class per code.

All derive from `ConduitError` and carry a `code` (a stable, low-cardinality string). The message is written for
a model: it has no secrets, no stack trace and is bounded in length. Raised inside the library; turned into a
provider's error answer once, in `conduit_actors.adapters`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

__all__ = [
    "Cancelled",
    "ConduitError",
    "ConfigurationError",
    "Denied",
    "HookFailed",
    "InvalidArguments",
    "OutcomeUnknown",
    "Overloaded",
    "ProtocolError",
    "ServerUnavailable",
    "Timeout",
    "UnknownTool",
    "UnsupportedSchema",
]

MAX_MESSAGE_CHARS = 2_000
"""Longest message of an error, in characters; a longer one keeps its head and tail."""


def bounded(text: str, limit: int = MAX_MESSAGE_CHARS) -> str:
    """Return `text`, or its head and tail with a note between them when it has more than `limit` characters."""
    if len(text) <= limit:
        return text
    note = f" … [{len(text) - limit} characters left out] … "
    keep = max(limit - len(note), 2)
    head = (keep + 1) // 2
    return text[:head] + note + text[len(text) - keep // 2 :]


class ConduitError(Exception):
    """Base of all errors of this library.

    Attributes:
        code: stable name of the kind of failure.
        message: text for a model or a log; at most `MAX_MESSAGE_CHARS` characters.
        server_id: the server concerned, if there is one.
        tool: the server's own name of the tool concerned, if there is one.
    """

    code: ClassVar[str] = "error"

    def __init__(self, message: str = "", *, server_id: str | None = None, tool: str | None = None) -> None:
        self.message = bounded(message) or self.code.replace("_", " ")
        self.server_id = server_id
        self.tool = tool
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message


class UnknownTool(ConduitError):
    """The name is not in the tool set that the model was offered, or its tool is gone since."""

    code = "unknown_tool"


class InvalidArguments(ConduitError):
    """The arguments are not an object, or do not fit the tool's input schema. Nothing was sent."""

    code = "invalid_arguments"


class Denied(ConduitError):
    """The policy or the approver refused the call. `halt` asks the agent loop to stop."""

    code = "denied"

    def __init__(
        self, message: str = "", *, server_id: str | None = None, tool: str | None = None, halt: bool = False
    ) -> None:
        super().__init__(message, server_id=server_id, tool=tool)
        self.halt = halt


class Timeout(ConduitError):
    """The call's deadline or the request's time-out passed. Whether the server did the work is not known."""

    code = "timeout"


class ServerUnavailable(ConduitError):
    """The server is down, restarting for longer than a call may wait, or parked. The call was not sent."""

    code = "server_unavailable"


class OutcomeUnknown(ConduitError):
    """The call was sent and the connection ended before an answer. The server may have done the work."""

    code = "outcome_unknown"


class Overloaded(ConduitError):
    """A queue bound was reached; the call was refused at once and not sent."""

    code = "overloaded"


class ProtocolError(ConduitError):
    """The server answered with a JSON-RPC error, or with something that is not valid MCP."""

    code = "protocol_error"

    def __init__(
        self,
        message: str = "",
        *,
        server_id: str | None = None,
        tool: str | None = None,
        rpc_code: int | None = None,
    ) -> None:
        super().__init__(message, server_id=server_id, tool=tool)
        self.rpc_code = rpc_code


class Cancelled(ConduitError):
    """The call was cancelled by the host, or the hub closed while it ran."""

    code = "cancelled"


class HookFailed(ConduitError):
    """A hook raised. A failing before hook means that nothing was sent."""

    code = "hook_failed"


class UnsupportedSchema(ConduitError):
    """A JSON Schema cannot be expressed in what a provider takes.

    Attributes:
        reason: what stands in the way, e.g. ``"oneOf"``.
        path: where, as the keys and indexes from the root of the schema.
    """

    code = "unsupported_schema"

    def __init__(self, reason: str, path: Sequence[str | int] = ()) -> None:
        self.reason = reason
        self.path = tuple(path)
        where = "/".join(str(part) for part in self.path) or "the root"
        super().__init__(f"{reason} (at {where})")


class ConfigurationError(ConduitError):
    """The host's own mistake: an option, a config file or a call that cannot work."""

    code = "configuration"

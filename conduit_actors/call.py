"""One governed call, stage by stage, as it runs inside its worker.

    resolve -> admit -> policy -> approval -> before hooks -> repair -> validate -> send -> shape -> after hooks

Each stage either passes the call on or raises a `ConduitError`. Nothing here catches one to carry on: the hub hands
it to the caller, and the adapters make the model's answer of it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from conduit_actors.results import ToolResult
from conduit_actors.sources import OnProgress, Shape
from conduit_actors.toolset import ExposedTool


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """What the caller asked for. Immutable; times in seconds, `deadline` on the event loop's clock.

    Attributes:
        timeout: for the request to the server; None: the server's own setting.
        deadline: when the whole call ends, on `anyio.current_time`'s clock.
        assigns: the host's own values for hooks and approver; never sent to the server.
        taint: servers whose output is in the model's context.
        meta: sent to the server in ``_meta``.
    """

    call_id: str
    tool: ExposedTool
    arguments: dict[str, Any]
    principal: str | None = None
    assigns: Mapping[str, Any] = field(default_factory=dict[str, Any])
    taint: frozenset[str] = frozenset()
    timeout: float | None = None
    deadline: float = float("inf")
    started: float = field(default_factory=time.perf_counter)
    meta: Mapping[str, Any] | None = None
    on_progress: OnProgress | None = None
    shape: Shape = "llm"


def to_result(request: CallRequest, raw: Mapping[str, Any], attempts: int) -> ToolResult:
    """The server's answer in wire form as a `ToolResult`."""
    content = raw.get("content")
    meta = raw.get("_meta")
    return ToolResult(
        content=tuple(content) if isinstance(content, list) else (),  # pyright: ignore[reportUnknownArgumentType]
        structured=raw.get("structuredContent"),
        is_error=raw.get("isError") is True,
        meta=meta if isinstance(meta, dict) else None,  # pyright: ignore[reportUnknownArgumentType]
        server_id=request.tool.server_id,
        tool=request.tool.tool,
        attempts=attempts,
    )

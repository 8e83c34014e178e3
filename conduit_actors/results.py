"""What a governed call takes and what it gives: `ToolCall`, `ToolResult`, `Outcome`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from conduit_actors.errors import ConduitError

ContentBlock: TypeAlias = Mapping[str, Any]
"""One MCP content block in its wire form, e.g. ``{"type": "image", "data": "...", "mimeType": "image/png"}``."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that a model made of a tool in the tool set it was offered.

    Attributes:
        call_id: the provider's id of the call; the answer carries it back.
        name: the exposed name, as the model wrote it.
        arguments: the decoded JSON object.
        server_id: the server that the name belongs to.
        tool: that server's own name of the tool.
        extra: what else the provider needs to see again in the answer (e.g. Anthropic's ``toolset_name``).
    """

    call_id: str
    name: str
    arguments: dict[str, Any]
    server_id: str
    tool: str
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The answer of a tool that ran (`is_error` results included).

    Attributes:
        content: MCP content blocks in wire form (camelCase keys), in the server's order.
        structured: ``structuredContent`` as any JSON value, None when the server sent none.
        is_error: the tool itself says that it failed.
        meta: the result's ``_meta``.
        server_id: the server that answered.
        tool: the server's own name of the tool.
        duration: seconds from admission to the answer.
        attempts: how many times the request was sent.
        truncated: text was cut to the size limit; `full` has all of it.
        warnings: things the host may want to log, e.g. a mismatch with the output schema.
    """

    content: tuple[ContentBlock, ...] = ()
    structured: Any = None
    is_error: bool = False
    meta: Mapping[str, Any] | None = None
    server_id: str = ""
    tool: str = ""
    duration: float = 0.0
    attempts: int = 1
    truncated: bool = False
    warnings: tuple[str, ...] = ()
    unshaped: ToolResult | None = field(default=None, repr=False)

    @property
    def full(self) -> ToolResult:
        """The result as the server sent it, before it was shaped and cut for a model."""
        return self if self.unshaped is None else self.unshaped

    @property
    def text(self) -> str:
        """All text blocks, joined by newlines."""
        return "\n".join(str(block.get("text", "")) for block in self.content if block.get("type") == "text")

    def shaped(self, **changes: Any) -> ToolResult:
        """A changed copy that remembers the full result."""
        return replace(self, unshaped=self.full, **changes)


Outcome: TypeAlias = ToolResult | ConduitError
"""How a governed call ended: the tool's answer, or the reason that there is none."""

"""A compact pair of tools instead of all definitions: one finds tools, one calls them. Works with any provider.

The pair is only how a model writes a call. What it names is looked up in the real tool set, and is governed, validated
and routed like any call.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, TypeAlias

from conduit_actors.adapters.definitions import description
from conduit_actors.adapters.parsing import Parsed, Rejected, read_call
from conduit_actors.adapters.schemas.pointers import mapping
from conduit_actors.errors import InvalidArguments
from conduit_actors.results import ToolCall, ToolResult
from conduit_actors.toolset import ExposedTool, ToolSet

SEARCH = "search_tools"
CALL = "call_tool"
_DEFAULT_FOUND = 5
_MAX_FOUND = 20
_MAX_SCHEMA_CHARS = 8_000
_MAX_DESCRIPTION_CHARS = 1_024
_MAX_SERVERS_TOLD = 50

Unwrapped: TypeAlias = Parsed | ToolResult


def pair(toolset: ToolSet) -> ToolSet:
    """The two tools that stand for a tool set; none for an empty one."""
    if not len(toolset):
        return ToolSet()
    counts = Counter(tool.server_id for tool in toolset)
    told = ", ".join(f"{server_id[:64]} ({count})" for server_id, count in list(counts.items())[:_MAX_SERVERS_TOLD])
    more = ", ..." if len(counts) > _MAX_SERVERS_TOLD else ""
    find = ExposedTool(
        name=SEARCH,
        server_id="",
        tool=SEARCH,
        description=f"Find tools by words of their names, descriptions and parameters. Servers: {told}{more}.",
        input_schema={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words of what the tool should do."},
                "limit": {"type": "integer", "description": f"At most {_MAX_FOUND}; {_DEFAULT_FOUND} if left out."},
            },
            "required": ["query"],
        },
    )
    call = ExposedTool(
        name=CALL,
        server_id="",
        tool=CALL,
        description=f"Call a tool that {SEARCH} found.",
        input_schema={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": f"Its name, exactly as {SEARCH} gave it."},
                "arguments": {"type": "object", "description": "What its input_schema asks for."},
            },
            "required": ["name"],
        },
    )
    return ToolSet([find, call], namespaced=False)


def unwrap(asked: Parsed, toolset: ToolSet) -> Unwrapped:
    """What a call of the pair means: the real call, or why there is none, or what a search found."""
    if isinstance(asked, Rejected):
        return asked
    if asked.name == CALL:
        return read_call(
            toolset,
            call_id=asked.call_id,
            name=asked.arguments.get("name"),
            arguments=asked.arguments.get("arguments", {}),
            extra=asked.extra,
            whole_numbers=True,
        )
    query, limit = asked.arguments.get("query"), asked.arguments.get("limit")
    if not isinstance(query, str):
        return _refused(asked, "query: a string is wanted")
    if limit is None:
        limit = _DEFAULT_FOUND
    if isinstance(limit, float) and limit.is_integer():
        limit = int(limit)
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        return _refused(asked, "limit: a positive integer is wanted")
    return _told(find(toolset, query, min(limit, _MAX_FOUND)), len(toolset))


def find(toolset: ToolSet, query: str, limit: int) -> list[ExposedTool]:
    """The tools that have most words of the query, best first; a word in the name counts most. Ties keep the order."""
    wanted = _words(query)
    scored = [(_score(tool, wanted), tool) for tool in toolset]
    hits = [(score, tool) for score, tool in scored if score > 0]
    return [tool for _, tool in sorted(hits, key=lambda hit: -hit[0])[:limit]]


def _score(tool: ExposedTool, wanted: frozenset[str]) -> int:
    keys = " ".join(mapping(tool.input_schema.get("properties")))
    texts = ((4, tool.name), (3, tool.title or ""), (2, tool.description or ""), (1, keys))
    return sum(weight * len(wanted & _words(text)) for weight, text in texts)


def _words(text: str) -> frozenset[str]:
    parts = re.findall(r"[^\W_]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", text))
    return frozenset(part.casefold() for part in parts)


def _refused(asked: ToolCall, reason: str) -> Rejected:
    return Rejected(asked.call_id, asked.name, InvalidArguments(reason), asked.extra)


def _told(found: list[ExposedTool], of: int) -> ToolResult:
    lines = [json.dumps(_shown(tool), ensure_ascii=False) for tool in found]
    text = "\n".join(lines) or f"No tool of {of} matches. Try other words."
    return ToolResult(content=({"type": "text", "text": text},), tool=SEARCH)


def _shown(tool: ExposedTool) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": tool.name, "description": description(tool, _MAX_DESCRIPTION_CHARS)}
    if len(json.dumps(tool.input_schema)) <= _MAX_SCHEMA_CHARS:
        return {**shown, "input_schema": tool.input_schema}
    # Too long to read: the names say most, and a wrong argument is answered with its path and reason.
    names = list(mapping(tool.input_schema.get("properties")))[:100]
    return {**shown, "parameters": names, "required": tool.input_schema.get("required", [])}

"""Anthropic's Messages API: definitions, calls, results. Pure functions over plain dicts.

The adapter never builds a ``tool_choice``: several current Claude models refuse a forced one (HTTP 400; facts of
2026-12-01). Leave it unset, or use ``auto`` or ``none``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from conduit_actors.adapters.content import NO_OUTPUT, Part, Structured, Text, error_text, parts_of
from conduit_actors.adapters.definitions import DESCRIPTION_CHARS, Definitions, description, with_description
from conduit_actors.adapters.parsing import Parsed, as_mapping, mappings, once_each, read_call, split, tool_of
from conduit_actors.adapters.schemas.normalise import for_anthropic
from conduit_actors.errors import ConfigurationError, UnsupportedSchema
from conduit_actors.results import Outcome, ToolCall
from conduit_actors.toolset import ToolSet

CacheControl: TypeAlias = Literal["last", "5m", "1h"] | Mapping[str, Any] | None

_RUNS = frozenset({None, "tool_use"})
"""Stop reasons of a turn whose calls may run; Anthropic's own runner runs tools on ``tool_use`` only."""


def tools(
    toolset: ToolSet, cache_control: CacheControl = None, *, description_limit: int = DESCRIPTION_CHARS
) -> Definitions:
    """``{"name", "description", "input_schema"}`` for each tool, in the tool set's order.

    Args:
        cache_control: "last" marks the last tool, so that the whole list is cached as a prefix of the prompt; "5m" or
            "1h" do so with that time to live; a dict is put there as it is.
    """
    made = Definitions()
    for tool in toolset:
        try:
            schema = for_anthropic(tool.input_schema)
        except UnsupportedSchema as refusal:
            made.exclude(tool, str(refusal))
            continue
        made.changed(tool, schema.changes)
        text = description(tool, description_limit, schema.note)
        made.append({**with_description({"name": tool.name}, text), "input_schema": schema.schema})
    mark = _cache_mark(cache_control)
    if mark is not None and made:
        made[-1] = {**made[-1], "cache_control": mark}
    return made


def _cache_mark(given: CacheControl) -> dict[str, Any] | None:
    if given is None:
        return None
    if isinstance(given, Mapping):
        return dict(given)
    if given == "last":
        return {"type": "ephemeral"}
    if given in ("5m", "1h"):
        return {"type": "ephemeral", "ttl": given}
    raise ConfigurationError(f"cache_control is 'last', '5m', '1h' or a dict, not {given!r}")


def parse(response: object, toolset: ToolSet) -> list[Parsed]:
    """All local calls of a message, in order. Server-run and unknown blocks are passed over."""
    message = as_mapping(response)
    reason = message.get("stop_reason")
    not_run = None if reason in _RUNS else f"the model's turn ended with {str(reason)[:60]!r}"
    found: list[Parsed] = []
    for index, block in enumerate(mappings(message.get("content"))):
        # A toolset's member belongs to Anthropic, and may have the name of a tool of ours.
        if block.get("type") != "tool_use" or block.get("toolset_name") is not None:
            continue
        tool = tool_of(toolset, block.get("name"))
        found.append(
            read_call(
                toolset,
                call_id=str(block.get("id") or f"call_{index}"),
                name=block.get("name"),
                arguments=block.get("input"),
                not_run=not_run,
                renames=() if tool is None else renames(tool.input_schema),
            )
        )
    return once_each(found)


def renames(schema: Mapping[str, Any]) -> Any:
    """The property keys that `tools` changed in a schema."""
    try:
        return for_anthropic(schema).renames
    except UnsupportedSchema:
        return ()


def tool_calls(response: object, toolset: ToolSet) -> tuple[list[ToolCall], list[dict[str, Any]]]:
    """The calls to run, and the error answers for those that name no offered tool or have no object for arguments."""
    calls, rejected = split(parse(response, toolset))
    return calls, [tool_result(one.call_id, one.error) for one in rejected]


def tool_result(call_id: str, outcome: Outcome, structured: Structured = "auto") -> dict[str, Any]:
    """The ``tool_result`` block of one call. An error's content is text only and never empty, as the API demands."""
    failure = error_text(outcome, structured)
    if failure is not None:
        return {
            "type": "tool_result",
            "tool_use_id": call_id,
            "content": [{"type": "text", "text": failure}],
            "is_error": True,
        }
    assert not isinstance(outcome, Exception)
    blocks = [_block(part) for part in parts_of(outcome, structured)]
    return {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": blocks or [{"type": "text", "text": NO_OUTPUT}],
    }


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    source = {"type": "base64", "media_type": part.mime, "data": part.data}
    return {"type": "image" if part.kind == "image" else "document", "source": source}


__all__ = ["parse", "tool_calls", "tool_result", "tools"]

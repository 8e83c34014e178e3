"""Anthropic's Messages API: definitions, calls, results. Pure functions over plain dicts.

The adapter never builds a ``tool_choice``: several current Claude models refuse a forced one (HTTP 400; facts of
2026-12-01). Leave it unset, or use ``auto`` or ``none``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from conduit_actors.adapters.content import NO_OUTPUT, Part, Structured, Text, error_text, parts_of
from conduit_actors.adapters.deferral import Defer, deferred
from conduit_actors.adapters.definitions import (
    DESCRIPTION_CHARS,
    Definitions,
    Fallback,
    Strict,
    description,
    with_description,
)
from conduit_actors.adapters.examples import InputExamples, fitting
from conduit_actors.adapters.parsing import Parsed, as_mapping, mappings, once_each, read_call, split, tool_of
from conduit_actors.adapters.schemas.anthropic_strict import AnthropicStrict, Budgets, Planned, plan
from conduit_actors.adapters.schemas.normalise import Normalised, for_anthropic
from conduit_actors.errors import ConfigurationError, UnsupportedSchema
from conduit_actors.results import Outcome, ToolCall
from conduit_actors.toolset import ExposedTool, ToolSet

CacheControl: TypeAlias = Literal["last", "5m", "1h"] | Mapping[str, Any] | None
ToolSearch: TypeAlias = Literal["bm25", "regex"] | None

_RUNS = frozenset({None, "tool_use"})
"""Stop reasons of a turn whose calls may run; Anthropic's own runner runs tools on ``tool_use`` only."""


def tools(
    toolset: ToolSet,
    cache_control: CacheControl = None,
    *,
    strict: Strict = False,
    budgets: Budgets | None = None,
    defer: Defer = False,
    tool_search: ToolSearch = "bm25",
    input_examples: InputExamples | None = None,
    eager_input_streaming: bool = False,
    description_limit: int = DESCRIPTION_CHARS,
) -> Definitions:
    """``{"name", "description", "input_schema"}`` for each tool, in the tool set's order.

    Args:
        cache_control: "last" marks the last tool that is not deferred, so that the list is cached as a prefix of the
            prompt; "5m" or "1h" do so with that time to live; a dict is put there as it is.
        strict: "auto" makes tools strict as long as the budgets of a request last, and reports the others as
            fallbacks; True leaves the others out; False (the default: the schemas are kept 24 hours by Anthropic, and
            must hold no health data) makes none strict.
        budgets: of a request; None: those documented on 2026-12-01.
        defer: which tools a model finds by search only: True, or exposed names and patterns. Costs no prompt cache.
        tool_search: Anthropic's search tool that goes with them; None: the host searches itself, and answers with
            ``tool_reference`` blocks. Then one tool at least is not deferred, as the API demands.
        input_examples: exposed name -> examples of arguments. One that does not fit the schema is left out; with tool
            search all are, as the API does not take both.
        eager_input_streaming: stream arguments as they are made; they may then be cut JSON, which is answered with an
            error.

    Raises:
        ConfigurationError: an option has no such value.
    """
    made = Definitions()
    mark = _cache_mark(cache_control)
    later = deferred(toolset.names, defer)
    searched = bool(later) and tool_search is not None
    planned = plan([tool.input_schema for tool in toolset], budgets) if strict else (Planned(None),) * len(toolset)
    for tool, found in zip(toolset, planned, strict=True):
        schema = _schema(tool, found, strict, made)
        if schema is None:
            continue
        changes = list(schema.changes)
        definition: dict[str, Any] = {
            **with_description({"name": tool.name}, description(tool, description_limit, schema.note)),
            "input_schema": schema.schema,
        }
        if isinstance(schema, AnthropicStrict):
            definition["strict"] = True
        examples = (input_examples or {}).get(tool.name)
        if examples and searched:
            changes.append("input examples were left out: tool search does not take them")
        elif examples:
            kept, left_out = fitting(examples, schema.schema, schema.renames)
            changes.extend(left_out)
            if kept:
                definition["input_examples"] = kept
        if eager_input_streaming:
            definition["eager_input_streaming"] = True
        if tool.name in later:
            definition["defer_loading"] = True
        made.changed(tool, changes)
        made.append(definition)
    if searched and made:
        made.insert(0, _search_tool(tool_search))
    elif made and all("defer_loading" in one for one in made):
        del made[0]["defer_loading"]
        made.changes[made[0]["name"]] = (*made.changes.get(made[0]["name"], ()), "not deferred: one tool must not be")
    if mark is not None and made:
        last = max(index for index, one in enumerate(made) if "defer_loading" not in one)
        made[last] = {**made[last], "cache_control": mark}
    return made


def _schema(
    tool: ExposedTool, found: Planned, strict: Strict, made: Definitions
) -> AnthropicStrict | Normalised | None:
    """The tool's schema, strict if it was planned so, or None if the tool cannot be offered."""
    if found.strict is not None:
        return found.strict
    if strict is True:
        made.exclude(tool, f"it cannot be strict: {found.reason}")
        return None
    try:
        normal = for_anthropic(tool.input_schema)
    except UnsupportedSchema as refusal:
        made.exclude(tool, str(refusal))
        return None
    if strict:
        made.fallbacks.append(Fallback(tool.name, found.reason, tuple(found.path)))
    return normal


def _search_tool(kind: ToolSearch) -> dict[str, Any]:
    if kind not in ("bm25", "regex"):
        raise ConfigurationError(f"tool_search is 'bm25', 'regex' or None, not {kind!r}")
    return {"type": f"tool_search_tool_{kind}_20251119", "name": f"tool_search_tool_{kind}"}


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

"""Amazon Bedrock's Converse API: tool specifications, calls, results. Pure functions over plain dicts."""

from __future__ import annotations

import base64
from typing import Any

from conduit_actors.adapters.content import Part, Structured, Text, error_text, parts_of, text_of
from conduit_actors.adapters.definitions import DESCRIPTION_CHARS, Definitions, description, with_description
from conduit_actors.adapters.parsing import Parsed, as_mapping, mappings, once_each, read_call, split, tool_of
from conduit_actors.adapters.schemas.normalise import for_bedrock
from conduit_actors.errors import UnsupportedSchema
from conduit_actors.results import Outcome, ToolCall
from conduit_actors.toolset import ToolSet

_RUNS = frozenset({None, "tool_use"})


def tools(toolset: ToolSet, *, description_limit: int = DESCRIPTION_CHARS) -> Definitions:
    """``{"toolSpec": {"name", "description", "inputSchema": {"json"}}}`` for each tool."""
    made = Definitions()
    for tool in toolset:
        try:
            schema = for_bedrock(tool.input_schema)
        except UnsupportedSchema as refusal:
            made.exclude(tool, str(refusal))
            continue
        made.changed(tool, schema.changes)
        spec = with_description({"name": tool.name}, description(tool, description_limit, schema.note))
        made.append({"toolSpec": {**spec, "inputSchema": {"json": schema.schema}}})
    return made


def parse(response: object, toolset: ToolSet) -> list[Parsed]:
    """All local calls of a Converse response, in order; typed ones are run by the provider."""
    body = as_mapping(response)
    reason = body.get("stopReason")
    not_run = None if reason in _RUNS else f"the model's turn ended with {str(reason)[:60]!r}"
    output = mappings([body.get("output")])
    message = mappings([output[0].get("message")]) if output else [body]
    found: list[Parsed] = []
    for block in mappings(message[0].get("content") if message else None):
        use = mappings([block.get("toolUse")])
        if not use or use[0].get("type") is not None:
            continue
        tool = tool_of(toolset, use[0].get("name"))
        found.append(
            read_call(
                toolset,
                call_id=str(use[0].get("toolUseId") or f"call_{len(found)}"),
                name=use[0].get("name"),
                arguments=use[0].get("input"),
                not_run=not_run,
                renames=() if tool is None else _renames(tool.input_schema),
            )
        )
    return once_each(found)


def _renames(schema: Any) -> Any:
    try:
        return for_bedrock(schema).renames
    except UnsupportedSchema:
        return ()


def tool_calls(response: object, toolset: ToolSet) -> tuple[list[ToolCall], list[dict[str, Any]]]:
    """The calls to run, and the error answers for those that cannot."""
    calls, rejected = split(parse(response, toolset))
    return calls, [tool_result(one.call_id, one.error) for one in rejected]


def tool_result(call_id: str, outcome: Outcome, structured: Structured = "auto") -> dict[str, Any]:
    """The ``toolResult`` block of one call. Image bytes are raw, as the AWS SDK wants them."""
    failure = error_text(outcome, structured)
    if failure is not None:
        content: list[dict[str, Any]] = [{"text": failure}]
        return {"toolResult": {"toolUseId": call_id, "content": content, "status": "error"}}
    assert not isinstance(outcome, Exception)
    parts = parts_of(outcome, structured)
    content = [_block(part) for part in parts] or [{"text": text_of([])}]
    return {"toolResult": {"toolUseId": call_id, "content": content, "status": "success"}}


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"text": part.text}
    data = base64.b64decode(part.data)
    if part.kind == "image":
        return {"image": {"format": part.mime.partition("/")[2], "source": {"bytes": data}}}
    return {"document": {"format": "pdf", "name": "document", "source": {"bytes": data}}}


__all__ = ["parse", "tool_calls", "tool_result", "tools"]

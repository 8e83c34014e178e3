"""Gemini's generateContent: function declarations, calls, responses. Pure functions over plain dicts. Experimental."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conduit_actors.adapters.content import Media, Part, Structured, Text, error_text, json_of, parts_of, text_of
from conduit_actors.adapters.definitions import DESCRIPTION_CHARS, Definitions, description
from conduit_actors.adapters.parsing import Parsed, as_mapping, mappings, once_each, read_call, split, tool_of
from conduit_actors.adapters.schemas.normalise import Dialect, for_gemini
from conduit_actors.adapters.schemas.output import for_gemini_response
from conduit_actors.errors import ConfigurationError, UnsupportedSchema
from conduit_actors.results import Outcome, ToolCall
from conduit_actors.toolset import ToolSet

_RUNS = frozenset({None, "STOP", "FINISH_REASON_UNSPECIFIED"})
_SHOWN = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf"})
"""What ``functionResponse.parts`` takes with Gemini 3 (google-genai 3.6.1); no GIF."""


def tools(
    toolset: ToolSet,
    *,
    dialect: Dialect = "json",
    output_schemas: bool = False,
    description_limit: int = DESCRIPTION_CHARS,
) -> Definitions:
    """The function declarations; wrap them as ``{"functionDeclarations": tools}``, and not at all when there are none.

    Args:
        dialect: "json" sends ``parametersJsonSchema``; "openapi" the older ``parameters``, for the Live API.
        output_schemas: say each tool's output schema, as ``responseJsonSchema``; the "json" dialect only.

    Raises:
        ConfigurationError: output schemas in the "openapi" dialect.
    """
    if output_schemas and dialect != "json":
        raise ConfigurationError("output_schemas needs dialect='json'")
    made = Definitions()
    for tool in toolset:
        try:
            schema = for_gemini(tool.input_schema, dialect)
        except UnsupportedSchema as refusal:
            made.exclude(tool, str(refusal))
            continue
        made.changed(tool, schema.changes)
        declaration: dict[str, Any] = {
            "name": tool.name,
            "description": description(tool, description_limit, schema.note),
        }
        if dialect == "json":
            declaration["parametersJsonSchema"] = schema.schema
        elif schema.schema.get("properties"):
            # An object without properties is refused there: a function without parameters has none at all.
            declaration["parameters"] = schema.schema
        if output_schemas and tool.output_schema is not None:
            declaration["responseJsonSchema"] = for_gemini_response(tool.output_schema).schema
        made.append(declaration)
    return made


def parse(response: object, toolset: ToolSet, *, dialect: Dialect = "json", index: int = 0) -> list[Parsed]:
    """All function calls of one candidate, in order. Parts that Gemini runs itself are passed over."""
    body = as_mapping(response)
    candidates = mappings(body.get("candidates"))
    if "candidates" in body or "parts" not in body:
        if index >= len(candidates):
            return []
        candidate = candidates[index]
        content = mappings([candidate.get("content")])
        reason = candidate.get("finishReason", candidate.get("finish_reason"))
    else:
        content, reason = [body], None  # the content itself
    not_run = None if reason in _RUNS else f"the model's turn ended with {str(reason)[:60]!r}"
    found: list[Parsed] = []
    for part in mappings(content[0].get("parts") if content else None):
        call = mappings([part.get("functionCall", part.get("function_call"))])
        if not call:
            continue
        given_id = call[0].get("id")
        tool = tool_of(toolset, call[0].get("name"))
        found.append(
            read_call(
                toolset,
                call_id=str(given_id or f"call_{len(found)}"),
                name=call[0].get("name"),
                arguments=call[0].get("args"),
                not_run=not_run,
                extra={"id": given_id} if given_id else {},
                renames=() if tool is None or dialect == "json" else _renames(tool.input_schema, dialect),
                whole_numbers=True,
            )
        )
    return once_each(found)


def _renames(schema: Mapping[str, Any], dialect: Dialect) -> Any:
    try:
        return for_gemini(schema, dialect).renames
    except UnsupportedSchema:
        return ()


def function_calls(response: object, toolset: ToolSet) -> tuple[list[ToolCall], list[dict[str, Any]]]:
    """The calls to run, and the error answers for those that name no offered tool or have no object for arguments."""
    calls, rejected = split(parse(response, toolset))
    return calls, [respond(one.name, one.extra.get("id"), one.error) for one in rejected]


def function_response(
    call: ToolCall, outcome: Outcome, *, structured: Structured = "prefer", multimodal: bool = False
) -> dict[str, Any]:
    """The ``functionResponse`` part of one call, with the call's id when Gemini sent one.

    Args:
        multimodal: send images and PDFs beside the response; for Gemini 3 and newer, older models answer 400.
    """
    return respond(call.name, call.extra.get("id"), outcome, structured=structured, multimodal=multimodal)


def respond(
    name: str,
    call_id: str | None,
    outcome: Outcome,
    *,
    structured: Structured = "prefer",
    multimodal: bool = False,
) -> dict[str, Any]:
    """`function_response` for a call that is given by its name and id."""
    answer: dict[str, Any] = {"id": call_id} if call_id else {}
    answer["name"] = name
    failure = error_text(outcome, "auto" if structured == "prefer" else structured)
    if failure is not None:
        return {"functionResponse": {**answer, "response": {"error": failure}}}
    assert not isinstance(outcome, Exception)
    parts = parts_of(outcome, "ignore" if structured == "prefer" else structured)
    shown = [part for part in parts if multimodal and isinstance(part, Media) and part.mime in _SHOWN]
    if structured == "prefer" and outcome.structured is not None:
        output: Any = json_of(outcome.structured)
    else:
        output = text_of([part for part in parts if part not in shown] or _pointer(shown))
    answer["response"] = {"output": output}
    if shown:
        answer["parts"] = [{"inlineData": {"mimeType": part.mime, "data": part.data}} for part in shown]
    return {"functionResponse": answer}


def _pointer(shown: list[Media]) -> list[Part]:
    return [Text("see the attached content")] if shown else []


__all__ = ["function_calls", "function_response", "parse", "respond", "tools"]

"""OpenAI's Chat Completions and Responses APIs: definitions, calls, results. Pure functions over plain dicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from conduit_actors.adapters.content import Part, Structured, Text, error_text, parts_of, text_of
from conduit_actors.adapters.deferral import Defer, deferred
from conduit_actors.adapters.definitions import (
    DESCRIPTION_CHARS,
    Definitions,
    Fallback,
    Strict,
    description,
    with_description,
)
from conduit_actors.adapters.namespaces import exposed, grouped
from conduit_actors.adapters.parsing import Parsed, as_mapping, mappings, once_each, read_call, split
from conduit_actors.adapters.profiles import ProfileLike, profile_of, without
from conduit_actors.adapters.schemas.normalise import for_openai
from conduit_actors.adapters.schemas.output import for_responses
from conduit_actors.adapters.schemas.strict import StrictSchema, strict_schema
from conduit_actors.errors import ConfigurationError, UnsupportedSchema
from conduit_actors.results import Outcome, ToolCall
from conduit_actors.toolset import ExposedTool, ToolSet

Api: TypeAlias = Literal["chat", "responses"]
NullPaths: TypeAlias = Mapping[str, Sequence[Sequence[str]]]

CHAT_DESCRIPTION_CHARS = 1_024
"""Reported limit of a function's description in Chat Completions, not documented (2026-12-01); hence an option."""

ERROR_PREFIX = "Error: "

_CHAT_RUNS = frozenset({None, "stop", "tool_calls", "function_call"})
"""A forced function ends with "stop"; "length" and "content_filter" cut calls off."""


def tools(
    toolset: ToolSet,
    *,
    api: Api,
    strict: Strict = "auto",
    defer: Defer = False,
    namespaces: bool = False,
    output_schemas: bool = False,
    profile: ProfileLike = None,
    description_limit: int | None = None,
) -> Definitions:
    """Function tools, each with ``strict`` said: when it is left out the Responses API tries and silently falls back.

    Args:
        api: "chat" or "responses".
        strict: "auto" falls back to ``strict: false`` for a schema that cannot be converted; True leaves such a tool
            out; False converts nothing.
        defer: responses: which tools a model finds by search only: True, or exposed names and patterns. OpenAI's own
            tool search is added.
        namespaces: responses: one namespace per server.
        output_schemas: responses: say each tool's output schema. It is about text outputs, so answer with
            ``structured="prefer"``.
        profile: chat: a server that speaks OpenAI's API but differs: a name of `profiles.PROFILES`, or a `Profile`.
        description_limit: characters; None: 1,024 for chat, 4,096 for responses.

    Raises:
        ConfigurationError: the API does not have an option.
    """
    _check_api(api)
    if api == "chat" and (defer or namespaces or output_schemas):
        raise ConfigurationError("Chat Completions has no defer, namespaces or output_schemas; see search=True")
    server = profile_of(profile)
    limit = description_limit or (CHAT_DESCRIPTION_CHARS if api == "chat" else DESCRIPTION_CHARS)
    later = deferred(toolset.names, defer)
    made = Definitions()
    functions: list[dict[str, Any]] = []
    for tool in toolset:
        converted = _converted(tool, strict if server.strict else False, made)
        if converted is None:
            continue
        is_strict, schema, note = converted
        function: dict[str, Any] = {
            **with_description({"name": tool.name}, description(tool, limit, note)),
            "parameters": without(schema, server.dropped) if is_strict else schema,
        }
        if server.strict:
            function["strict"] = is_strict
        if tool.name in later:
            function["defer_loading"] = True
        if output_schemas and tool.output_schema is not None:
            function["output_schema"] = for_responses(tool.output_schema).schema
        functions.append(function)
    if api == "chat":
        made.extend({"type": "function", "function": one} for one in functions)
        return made
    functions = [{"type": "function", **one} for one in functions]
    made.extend(grouped(toolset, functions) if namespaces else functions)
    if later and functions:
        made.append({"type": "tool_search"})
    return made


def _converted(tool: ExposedTool, strict: Strict, made: Definitions) -> tuple[bool, dict[str, Any], str] | None:
    if strict:
        try:
            found = strict_schema(tool.input_schema)
        except UnsupportedSchema as refusal:
            if strict is True:
                made.exclude(tool, f"it cannot be strict: {refusal}")
                return None
            made.fallbacks.append(Fallback(tool.name, refusal.reason, refusal.path))
        else:
            if found.null_paths:
                made.null_paths[tool.name] = found.null_paths
            return True, found.schema, ""
    try:
        normal = for_openai(tool.input_schema)
    except UnsupportedSchema as refusal:
        made.exclude(tool, str(refusal))
        made.fallbacks = [one for one in made.fallbacks if one.name != tool.name]
        return None
    made.changed(tool, normal.changes)
    return False, normal.schema, normal.note


def parse(
    response: object, toolset: ToolSet, *, api: Api, null_paths: NullPaths | None = None, index: int = 0
) -> list[Parsed]:
    """All function calls of a response, in order. Calls that the provider runs itself are passed over.

    Args:
        null_paths: from the listing, for the nulls that strict mode made the model send.
        index: which choice of a chat completion.
    """
    _check_api(api)
    body = as_mapping(response)
    found = _chat_calls(body, index) if api == "chat" else _response_calls(body, toolset)
    return once_each(
        [
            read_call(
                toolset,
                call_id=call_id,
                name=name,
                arguments=arguments,
                not_run=not_run,
                null_paths=null_paths,
                extra=extra,
            )
            for call_id, name, arguments, not_run, extra in found
        ]
    )


_Found: TypeAlias = tuple[str, Any, Any, str | None, dict[str, Any]]


def _chat_calls(body: Mapping[str, Any], index: int) -> list[_Found]:
    choices = mappings(body.get("choices"))
    if "choices" in body:
        if index >= len(choices):
            return []
        choice = choices[index]
        message = mappings([choice.get("message")])
        reason = choice.get("finish_reason")
    else:
        message, reason = [body], None  # the message itself
    if not message:
        return []
    not_run = None if reason in _CHAT_RUNS else f"the model's turn ended with {str(reason)[:60]!r}"
    if message[0].get("refusal"):
        not_run = "the model refused"
    found: list[_Found] = []
    for position, call in enumerate(mappings(message[0].get("tool_calls"))):
        function = mappings([call.get("function")])
        if call.get("type", "function") != "function" or not function:
            continue
        call_id = str(call.get("id") or f"call_{position}")
        found.append((call_id, function[0].get("name"), function[0].get("arguments"), not_run, {}))
    return found


def _response_calls(body: Mapping[str, Any], toolset: ToolSet) -> list[_Found]:
    status = body.get("status")
    turn = None if status in (None, "completed") else f"the response is {str(status)[:60]!r}"
    found: list[_Found] = []
    for position, item in enumerate(mappings(body.get("output"))):
        if item.get("type") != "function_call":
            continue
        state = item.get("status")
        not_run = turn or (None if state in (None, "completed") else f"the call is {str(state)[:60]!r}")
        call_id = str(item.get("call_id") or item.get("id") or f"call_{position}")
        name = exposed(toolset, item.get("name"), item.get("namespace"))
        found.append((call_id, name, item.get("arguments"), not_run, {}))
    return found


def tool_calls(
    response: object, toolset: ToolSet, *, api: Api, null_paths: NullPaths | None = None
) -> tuple[list[ToolCall], list[dict[str, Any]]]:
    """The calls to run, and the error answers for those that name no offered tool or have no object for arguments."""
    calls, rejected = split(parse(response, toolset, api=api, null_paths=null_paths))
    return calls, [tool_output(one.call_id, one.error, api=api) for one in rejected]


def tool_output(
    call_id: str,
    outcome: Outcome,
    *,
    api: Api,
    structured: Structured = "auto",
    error_prefix: str = ERROR_PREFIX,
) -> dict[str, Any]:
    """The answer to one call: a ``tool`` message (chat) or a ``function_call_output`` item (responses).

    OpenAI has no error flag, so a failure's text starts with `error_prefix`. Chat takes text only.
    """
    _check_api(api)
    failure = error_text(outcome, structured)
    if failure is not None:
        return _answer(call_id, error_prefix + failure, api)
    assert not isinstance(outcome, Exception)
    parts = parts_of(outcome, structured)
    if api == "chat" or all(isinstance(part, Text) for part in parts):
        return _answer(call_id, text_of(parts), api)
    return _answer(call_id, [_item(part) for part in parts], api)


def _answer(call_id: str, content: str | list[dict[str, Any]], api: Api) -> dict[str, Any]:
    if api == "chat":
        return {"role": "tool", "tool_call_id": call_id, "content": content}
    return {"type": "function_call_output", "call_id": call_id, "output": content}


def _item(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    uri = f"data:{part.mime};base64,{part.data}"
    if part.kind == "image":
        return {"type": "input_image", "image_url": uri, "detail": "auto"}
    name = part.name.rstrip("/").rpartition("/")[2] or "document.pdf"
    return {"type": "input_file", "filename": name, "file_data": uri}


def _check_api(api: object) -> None:
    if api not in ("chat", "responses"):
        raise ConfigurationError(f"OpenAI needs api='chat' or api='responses', not {api!r}")


__all__ = ["StrictSchema", "parse", "strict_schema", "tool_calls", "tool_output", "tools"]

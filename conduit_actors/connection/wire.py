"""Raw MCP messages made harmless before anything validates them as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types import ContentBlock, Tool, methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

_TOOL = TypeAdapter(Tool)
_BLOCK: TypeAdapter[Any] = TypeAdapter(ContentBlock)
_OPTIONAL = frozenset({"title", "description", "annotations", "outputSchema", "_meta", "icons", "execution"})
_MODERN_PAGE: dict[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

OnQuarantine = Callable[[str, str], None]
"""Called with a tool's name and the reason why it is left out."""


def good_page(page: Mapping[str, Any], version: str, on_quarantine: OnQuarantine) -> dict[str, Any]:
    """A page of a tool list that is valid at `version`.

    Tools that are not valid MCP are left out and reported. Repaired is only what cannot change a tool's meaning: an
    optional field of a wrong type is dropped, an absent ``type: object`` is added, and what is not a schema where a
    property's schema must stand is dropped.
    """
    modern = version in MODERN_PROTOCOL_VERSIONS
    good: dict[str, Any] = {**_MODERN_PAGE, **page} if modern else dict(page)
    cursor = good.get("nextCursor")
    if cursor is not None and not isinstance(cursor, str):
        del good["nextCursor"]
        on_quarantine("nextCursor", "the list's next cursor is not a string; later pages were not read")
    tools = page.get("tools")
    if not isinstance(tools, list):
        on_quarantine("tools", "the list of tools is not an array")
        tools = []
    kept: list[dict[str, Any]] = []
    good["tools"] = kept
    for index, tool in enumerate(cast("list[Any]", tools)):
        name = cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not name:
            on_quarantine(f"#{index}", "it is not an object with a name")
            continue
        try:
            kept.append(_checked(cast("dict[str, Any]", tool), version))
        except ValueError as error:
            on_quarantine(name, str(error))
    return good


def _checked(tool: dict[str, Any], version: str) -> dict[str, Any]:
    """The tool, repaired. Raises ValueError with a short reason."""
    entry = {key: value for key, value in tool.items() if value is not None or key not in _OPTIONAL}
    entry["inputSchema"] = _object_schema(entry.get("inputSchema"))
    modern = version in MODERN_PROTOCOL_VERSIONS
    while True:
        try:
            # The SDK checks a page first against the revision's own types and then against these.
            methods.validate_server_result("tools/list", version, {"tools": [entry], **_MODERN_PAGE})
            _TOOL.validate_python(entry, by_name=False)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            path = [part for part in fault["loc"] if part not in ("tools", 0)]
            if path and path[0] in _OPTIONAL and path[0] in entry:
                del entry[str(path[0])]
                continue
            raise ValueError(f"{'.'.join(map(str, path)) or 'the tool'}: {fault['msg']}"[:300]) from None
        except RecursionError:
            raise ValueError("its schema is nested too deeply") from None
        break
    if modern and (reason := find_invalid_x_mcp_header(entry["inputSchema"])) is not None:
        raise ValueError(f"inputSchema: {reason}"[:300])
    return entry


def _object_schema(schema: Any) -> dict[str, Any]:
    if schema is None:
        return {"type": "object", "properties": {}}
    if not isinstance(schema, dict):
        raise ValueError("inputSchema: it is not an object")
    fixed = dict(cast("dict[str, Any]", schema))
    kind = fixed.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise ValueError(f"inputSchema: its type is {kind!r:.40}, and arguments are always an object")
    fixed["type"] = "object"
    if fixed.get("properties") is None:
        fixed.pop("properties", None)
    elif not isinstance(fixed["properties"], dict):
        raise ValueError("inputSchema: its properties are not an object")
    else:
        properties = cast("dict[str, Any]", fixed["properties"])
        fixed["properties"] = {key: value for key, value in properties.items() if isinstance(value, (dict, bool))}
    if "required" in fixed:
        required: Any = fixed["required"]
        names = cast("list[Any]", required) if isinstance(required, list) else []
        fixed["required"] = [name for name in names if isinstance(name, str)]
    return fixed


def isolate_blocks(raw: dict[str, Any]) -> dict[str, Any]:
    """A tool result in which each malformed content block is replaced by a text that says so."""
    content = raw.get("content")
    if content is None:
        return {**raw, "content": []}
    if not isinstance(content, list):
        return {**raw, "content": [_placeholder(content)]}
    blocks = cast("list[Any]", content)
    if all(_plain_text(block) for block in blocks):
        return raw
    return {**raw, "content": [block if _valid(block) else _placeholder(block) for block in blocks]}


def _plain_text(block: Any) -> bool:
    return isinstance(block, dict) and len(cast("dict[str, Any]", block)) == 2 and _text_of(cast("Any", block))


def _text_of(block: dict[str, Any]) -> bool:
    return block.get("type") == "text" and isinstance(block.get("text"), str)


def _valid(block: Any) -> bool:
    try:
        _BLOCK.validate_python(block, by_name=False)
    except (ValidationError, RecursionError):
        return False
    return True


def _placeholder(block: Any) -> dict[str, str]:
    kind = cast("Mapping[str, Any]", block).get("type") if isinstance(block, dict) else type(block).__name__
    return {"type": "text", "text": f"[a malformed content block of type {str(kind)[:40]!r} was left out]"}

"""Raw MCP messages made harmless before the SDK validates them as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from mcp_types import ContentBlock, Tool
from pydantic import TypeAdapter, ValidationError

_TOOL = TypeAdapter(Tool)
_BLOCK: TypeAdapter[Any] = TypeAdapter(ContentBlock)


def keep_good_tools(tools: object, on_quarantine: Callable[[str, str], None]) -> list[dict[str, Any]]:
    """The tools that are valid MCP, repaired where nothing is guessed; each other one is reported with a reason."""
    good: list[dict[str, Any]] = []
    if not isinstance(tools, list):
        return good
    for index, tool in enumerate(cast("list[Any]", tools)):
        if not isinstance(tool, dict) or not isinstance(cast("dict[str, Any]", tool).get("name"), str):
            on_quarantine(f"#{index}", "it is not an object with a name")
            continue
        entry = _repaired(cast("dict[str, Any]", tool))
        try:
            _TOOL.validate_python(entry, by_name=False)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in fault["loc"])
            on_quarantine(entry["name"], f"{where}: {fault['msg']}" if where else fault["msg"])
            continue
        good.append(entry)
    return good


_OPTIONAL = ("title", "description", "annotations", "outputSchema", "_meta", "icons", "execution")


def _repaired(tool: dict[str, Any]) -> dict[str, Any]:
    # Only what cannot change the tool's meaning: an optional field that is null or of a wrong type is as good as absent.
    entry = {key: value for key, value in tool.items() if value is not None or key not in _OPTIONAL}
    if entry.get("inputSchema") is None:
        entry["inputSchema"] = {"type": "object", "properties": {}}
    for key in ("annotations", "_meta", "outputSchema"):
        if key in entry and not isinstance(entry[key], dict):
            del entry[key]
    for key in ("title", "description"):
        if key in entry and not isinstance(entry[key], str):
            del entry[key]
    return entry


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
    return isinstance(block, dict) and len(cast("dict[str, Any]", block)) == 2 and _text_of(block)


def _text_of(block: dict[str, Any]) -> bool:
    return block.get("type") == "text" and isinstance(block.get("text"), str)


def _valid(block: Any) -> bool:
    try:
        _BLOCK.validate_python(block, by_name=False)
    except ValidationError:
        return False
    return True


def _placeholder(block: Any) -> dict[str, str]:
    kind = cast("Mapping[str, Any]", block).get("type") if isinstance(block, dict) else type(block).__name__
    return {"type": "text", "text": f"[a malformed content block of type {str(kind)[:40]!r} was left out]"}

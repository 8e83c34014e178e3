"""Shaping: a result as a model should get it. The guide's media rules, and one size limit over all that it reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from conduit_actors.limits import Limits
from conduit_actors.media import (
    AUDIO_TYPES,
    IMAGE_TYPES,
    clean_mime,
    clean_text,
    decode,
    encode,
    placeholder,
    resource_of,
    sniff,
)
from conduit_actors.results import ContentBlock, ToolResult

_KEPT_DOCUMENTS = frozenset({"application/pdf"})
"""Blobs that some provider can show, so that they are left to the adapters."""


def shape_for_llm(result: ToolResult, limits: Limits) -> ToolResult:
    """The result with unshowable media as words, text cleaned, and text and structured content within
    `max_result_chars` together; `ToolResult.full` still has everything.
    """
    limit = limits.max_result_chars
    content = result.content
    structured = result.structured
    if len(content) == 1 and _is_small_text(content[0], limit) and _is_small_mirror(structured, limit):
        return result
    blocks = [_shape_block(block, limits) for block in content]
    structured, repeated = _without_media(structured, blocks)
    changed = repeated or any(new is not old for new, old in zip(blocks, content, strict=True))
    truncated = False
    if limit is not None:
        blocks, structured, truncated = _within(blocks, structured, limit)
    if not changed and not truncated:
        return result
    return result.shaped(content=tuple(blocks), structured=structured, truncated=truncated)


def _is_small_text(block: ContentBlock, limit: int | None) -> bool:
    text = block.get("text")
    return (
        block.get("type") == "text"
        and isinstance(text, str)
        and (limit is None or len(text) <= limit // 2)
        and text.isascii()
        and "\x00" not in text
    )


def _is_small_mirror(structured: Any, limit: int | None) -> bool:
    """Whether structured content is None, or so flat and short that it cannot matter: the usual ``{"result": 5}``."""
    if structured is None:
        return True
    if not isinstance(structured, dict) or len(cast("dict[str, Any]", structured)) != 1:
        return False
    ((key, value),) = cast("dict[str, Any]", structured).items()
    if len(key) > _SMALL_MIRROR or (limit is not None and limit < 8 * _SMALL_MIRROR):
        return False
    return (
        value is None
        or isinstance(value, (bool, int, float))
        or (isinstance(value, str) and len(value) < _SMALL_MIRROR)
    )


_SMALL_MIRROR = 60
"""Characters; no encoded image is that short."""


def _shape_block(block: ContentBlock, limits: Limits) -> ContentBlock:
    kind = block.get("type")
    if kind == "text":
        text = block.get("text")
        if not isinstance(text, str):
            return _text("[a malformed text block was left out]")
        clean = clean_text(text)
        return block if clean == text else {**block, "text": clean}
    if kind in ("image", "audio"):
        return _shape_media(block, str(kind), limits)
    if kind == "resource":
        return _shape_resource(block, limits)
    if kind == "resource_link":
        return block
    return _text(f"[a content block of type {str(kind)[:40]!r} was left out]")


def _shape_media(block: ContentBlock, kind: str, limits: Limits) -> ContentBlock:
    data = decode(block.get("data"))
    declared = clean_mime(block.get("mimeType"))
    if data is None:
        return _text(placeholder(kind, declared, None, "its base64 is not valid"))
    mime = sniff(data, declared)
    if kind == "audio" and declared in AUDIO_TYPES and mime.partition("/")[0] in ("audio", "video", "application"):
        mime = declared  # containers such as WebM and Ogg carry either
    if mime not in (IMAGE_TYPES if kind == "image" else AUDIO_TYPES):
        return _text(placeholder(kind, mime, len(data)))
    if kind == "image" and len(data) > limits.max_image_bytes:
        return _text(placeholder(kind, mime, len(data), "too large to show"))
    canonical = encode(data)
    if canonical == block.get("data") and mime == block.get("mimeType"):
        return block
    return {**block, "data": canonical, "mimeType": mime}


def _shape_resource(block: ContentBlock, limits: Limits) -> ContentBlock:
    resource = resource_of(block)
    uri = str(resource.get("uri", ""))
    text = resource.get("text")
    if isinstance(text, str):
        clean = clean_text(text)
        return block if clean == text else {**block, "resource": {**resource, "text": clean}}
    blob = resource.get("blob")
    if blob is None:
        return _text(f"[resource: {uri}, without content]")
    data = decode(blob)
    declared = clean_mime(resource.get("mimeType"))
    if data is None:
        return _text(placeholder("resource", declared, None, "its base64 is not valid"))
    mime = sniff(data, declared)
    small = mime not in IMAGE_TYPES or len(data) <= limits.max_image_bytes
    if (mime in IMAGE_TYPES and small) or mime in _KEPT_DOCUMENTS:
        return {**block, "resource": {**resource, "blob": encode(data), "mimeType": mime}}
    return _text(f"{placeholder('resource', mime, len(data))} {uri}".rstrip())


def _without_media(structured: Any, blocks: list[ContentBlock]) -> tuple[Any, bool]:
    """Structured content with each base64 that a block carries already replaced by a note."""
    if structured is None:
        return None, False
    carried = {data for block in blocks if isinstance(data := block.get("data"), str) and len(data) > 64}
    carried |= {data for block in blocks if isinstance(data := resource_of(block).get("blob"), str) and len(data) > 64}
    if not carried:
        return structured, False
    found = False

    def walk(value: Any) -> Any:
        nonlocal found
        if isinstance(value, str):
            if value in carried:
                found = True
                return "[see the attached content]"
            return value
        if isinstance(value, Mapping):
            return {key: walk(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, list):
            return [walk(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        return value

    replaced = walk(structured)
    return (replaced, True) if found else (structured, False)


def _within(blocks: list[ContentBlock], structured: Any, limit: int) -> tuple[list[ContentBlock], Any, bool]:
    """All text within `limit` characters: blocks share it in order, structured content gets what they leave."""
    total = sum(_text_size(block) for block in blocks)
    size = 0 if structured is None else len(json.dumps(structured, ensure_ascii=False, default=str))
    if total + size <= limit:
        return blocks, structured, False
    left = limit
    shaped: list[ContentBlock] = []
    for block in blocks:
        length = _text_size(block)
        if length > left:
            block = _cut_block(block, left)
        left = max(left - _text_size(block), 0)
        shaped.append(block)
    if structured is not None and size > left:
        if not blocks:
            text = json.dumps(structured, ensure_ascii=False, default=str)
            return [_text(cut(text, limit))], None, True
        # Half a JSON document is none: the text stands, and says what is missing.
        shaped.append(_text(f"[structured content of {size} characters was left out]"))
        structured = None
    return shaped, structured, True


def _text_size(block: ContentBlock) -> int:
    text = block.get("text") if block.get("type") == "text" else resource_of(block).get("text")
    return len(text) if isinstance(text, str) else 0


def _cut_block(block: ContentBlock, limit: int) -> ContentBlock:
    if block.get("type") == "text":
        return {**block, "text": cut(str(block["text"]), limit)}
    resource = resource_of(block)
    return {**block, "resource": {**resource, "text": cut(str(resource["text"]), limit)}}


def cut(text: str, limit: int) -> str:
    """Head and tail of `text` in about `limit` characters, with a note of how much is missing between them."""
    if len(text) <= limit:
        return text
    note = f"\n[... {len(text) - limit} of {len(text)} characters left out ...]\n"
    keep = max(limit - len(note), 0)
    head = (keep + 1) // 2
    tail = keep - head
    return text[:head] + note + (text[-tail:] if tail else "")


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}

"""A result's content in a form that no provider owns: text, images and files, in the server's order."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from conduit_actors.errors import ConduitError
from conduit_actors.media import (
    IMAGE_TYPES,
    clean_mime,
    clean_text,
    decode,
    encode,
    placeholder,
    resource_link_text,
    resource_of,
    sniff,
)
from conduit_actors.results import ContentBlock, Outcome, ToolResult

Structured: TypeAlias = Literal["auto", "prefer", "append", "ignore"]

NO_OUTPUT = "(the tool returned no output)"
NO_MESSAGE = "the tool failed and gave no reason"

_MAX_IMAGE_BYTES = 5 * 1024 * 1024
"""A larger image fails the whole request at Anthropic (reported error text, 2026-12-01); shaping cuts earlier."""


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Media:
    """An image or a document, with its true type and canonical base64."""

    kind: Literal["image", "document"]
    mime: str
    data: str
    size: int
    name: str = ""

    def words(self) -> Text:
        """What a provider that cannot show it gets instead."""
        return Text(placeholder(self.kind, self.mime, self.size))


Part: TypeAlias = Text | Media


def parts_of(result: ToolResult, structured: Structured) -> list[Part]:
    """The parts of a result. Text is never blank, media are what they say, nothing is left out silently.

    Args:
        structured: what becomes of ``structuredContent``: "auto" uses it only where there is no content, "prefer"
            instead of the text, "append" after it, "ignore" never.
    """
    parts = [part for block in result.content for part in _parts(block)]
    if result.structured is None or structured == "ignore":
        return parts
    as_text = Text(clean_text(json.dumps(result.structured, ensure_ascii=False, default=str)))
    if structured == "append":
        return [*parts, as_text]
    if structured == "prefer":
        return [as_text, *(part for part in parts if isinstance(part, Media))]
    return parts or [as_text]


def _parts(block: ContentBlock) -> list[Part]:
    kind = block.get("type")
    if kind == "text":
        text = block.get("text")
        if not isinstance(text, str):
            return [Text("[a malformed text block]")]
        return [Text(clean_text(text))] if text.strip() else []
    if kind == "image":
        return [_image(block.get("data"), block.get("mimeType"))]
    if kind == "audio":
        data = decode(block.get("data"))
        mime = clean_mime(block.get("mimeType"))
        return [Text(placeholder("audio", mime, None if data is None else len(data)))]
    if kind == "resource_link":
        return [Text(clean_text(resource_link_text(block)))]
    if kind == "resource":
        return [_resource(block)]
    return [Text(f"[a content block of type {str(kind)[:40]!r}]")]


def _image(encoded: object, declared: object, uri: str = "") -> Part:
    data = decode(encoded)
    if data is None:
        return Text(placeholder("image", clean_mime(declared), None, "its base64 is not valid"))
    mime = sniff(data, declared)
    if mime not in IMAGE_TYPES:
        return Text(placeholder("image", mime, len(data)))
    if len(data) > _MAX_IMAGE_BYTES:
        return Text(placeholder("image", mime, len(data), "too large to show"))
    return Media("image", mime, encode(data), len(data), uri)


def _resource(block: ContentBlock) -> Part:
    resource = resource_of(block)
    uri = str(resource.get("uri", ""))
    text = resource.get("text")
    if isinstance(text, str):
        return Text(clean_text(f"[resource: {uri}]\n{text}"))
    data = decode(resource.get("blob"))
    declared = clean_mime(resource.get("mimeType"))
    if data is None:
        return Text(clean_text(f"{placeholder('resource', declared, None, 'no readable content')} {uri}".rstrip()))
    mime = sniff(data, declared)
    if mime in IMAGE_TYPES:
        return _image(resource.get("blob"), mime, uri)
    if mime == "application/pdf":
        return Media("document", mime, encode(data), len(data), uri)
    return Text(clean_text(f"{placeholder('resource', mime, len(data))} {uri}".rstrip()))


def text_of(parts: list[Part], empty: str = NO_OUTPUT) -> str:
    """All parts as one text, media as words; `empty` where there is nothing to read."""
    texts = [part.text if isinstance(part, Text) else part.words().text for part in parts]
    joined = "\n".join(text for text in texts if text.strip())
    return joined or empty


def error_text(outcome: Outcome, structured: Structured) -> str | None:
    """The text of a failure; None if the outcome is a success."""
    if isinstance(outcome, ConduitError):
        return clean_text(outcome.message).strip() or outcome.code
    if not outcome.is_error:
        return None
    return text_of(parts_of(outcome, structured), NO_MESSAGE)


def json_of(value: Any) -> Any:
    """JSON data with all text made clean."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(str(key)): json_of(item) for key, item in value.items()}  # pyright: ignore
    if isinstance(value, (list, tuple)):
        return [json_of(item) for item in value]  # pyright: ignore
    return value

"""What bytes really are, and words for what cannot be shown."""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, cast

import filetype  # pyright: ignore[reportMissingTypeStubs]

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""Images that a model can be shown: the guide's list, and Anthropic's and OpenAI's (2026-12-01)."""

AUDIO_TYPES = frozenset({"audio/wav", "audio/mpeg", "audio/ogg", "audio/webm", "audio/flac"})
"""Audio that shaping keeps: WAV, MP3, Ogg, WebM and FLAC, as in the guide."""

_AUDIO_ALIASES = {"audio/x-wav": "audio/wav", "audio/wave": "audio/wav", "audio/mp3": "audio/mpeg"}
_MIME = re.compile(r"[a-z]+/[a-z0-9.+-]+\Z")


def decode(data: object) -> bytes | None:
    """The bytes of a base64 string (either alphabet, white space ignored); None if it is not one."""
    if not isinstance(data, str):
        return None
    compact = "".join(data.split()).replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def encode(data: bytes) -> str:
    """Plain base64, without line breaks."""
    return base64.b64encode(data).decode("ascii")


def clean_mime(declared: object) -> str:
    """A MIME type in lower case without parameters; ``image/image/png`` is mended; "" if it is none."""
    if not isinstance(declared, str):
        return ""
    mime = declared.split(";", 1)[0].strip().lower()
    parts = mime.split("/")
    if len(parts) > 2:
        mime = "/".join(parts[-2:])
    mime = {"image/jpg": "image/jpeg"}.get(mime, _AUDIO_ALIASES.get(mime, mime))
    return mime if _MIME.match(mime) else ""


def sniff(data: bytes, declared: object = None) -> str:
    """What the bytes are by their own signature, else what was declared, else ``application/octet-stream``."""
    kind: Any = filetype.guess(data)  # pyright: ignore[reportUnknownMemberType]
    if kind is not None:
        return clean_mime(kind.mime) or "application/octet-stream"
    return clean_mime(declared) or "application/octet-stream"


def placeholder(kind: str, mime: str, size: int | None, note: str = "") -> str:
    """Words in the place of something that cannot be shown: ``[image: image/png, 1024 bytes]``."""
    facts = [mime or "unknown type"]
    if size is not None:
        facts.append(f"{size} bytes")
    if note:
        facts.append(note)
    return f"[{kind}: {', '.join(facts)}]"


def clean_text(text: str) -> str:
    """`text` without what JSON or a provider cannot carry: unpaired surrogates and NUL become U+FFFD."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # Pairs of surrogates that stand for one character are joined; single ones are replaced.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def visible(text: str) -> str:
    """`text` without what a person would not see and a model would read: zero-width, tag, bidi and control
    characters, ANSI escapes, HTML comments."""
    if text.isascii() and text.isprintable() and "<!--" not in text:
        return text
    text = _COMMENT.sub("", _ANSI.sub("", clean_text(text)))
    return "".join(
        character
        for character in text
        if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Co", "Cs", "Cn")
    )


def resource_link_text(block: Mapping[str, Any]) -> str:
    """``[resource] name <uri> (mime)``, with the description if there is one."""
    name = str(block.get("title") or block.get("name") or "")
    text = f"[resource] {name} <{block.get('uri', '')}>".replace("  ", " ")
    mime = clean_mime(block.get("mimeType"))
    if mime:
        text += f" ({mime})"
    description = block.get("description")
    return f"{text}: {description}" if isinstance(description, str) and description else text


def resource_of(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """The embedded resource of a block, or an empty one."""
    resource = block.get("resource")
    return cast("Mapping[str, Any]", resource) if isinstance(resource, Mapping) else {}

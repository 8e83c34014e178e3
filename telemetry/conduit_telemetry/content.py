"""Arguments and results on spans: only when the host opted in, and never without redaction.

The opt-in is the conventions' variable ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` (``SPAN_ONLY`` or
``SPAN_AND_EVENT``; anything else, ``EVENT_ONLY`` included, records nothing on spans), or `capture_content`.
"""

from __future__ import annotations

import json
import os
from typing import Any

from conduit_telemetry.redaction import Redactor

CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
MAX_CONTENT_CHARS = 8_192
"""Characters of an encoded value that a span keeps."""

_capture: bool | None = None
_redactor = Redactor()


def capture_content(capture: bool | None, redactor: Redactor | None = None) -> None:
    """Record arguments and results on spans, or not; None leaves it to the environment variable."""
    global _capture, _redactor
    _capture = capture
    if redactor is not None:
        _redactor = redactor


def capturing() -> bool:
    """Whether arguments and results are recorded."""
    if _capture is not None:
        return _capture
    return os.environ.get(CAPTURE_VARIABLE, "").upper() in ("SPAN_ONLY", "SPAN_AND_EVENT")


def encoded(value: Any, redactor: Redactor | None = None) -> str:
    """JSON-like data as redacted, bounded text. `redactor`: one that knows more secrets, applied as well."""
    # Redacted first as data, where keys can be seen, and cut last: half a secret would not be recognised.
    clean = _redactor.value(value)
    if redactor is not None:
        clean = redactor.value(clean)
    text = json.dumps(clean, ensure_ascii=False, default=lambda other: f"<{type(other).__name__}>")
    return text if len(text) <= MAX_CONTENT_CHARS else f"{text[:MAX_CONTENT_CHARS]} ..."

"""`Redactor`: takes secrets out of text and data before anybody sees them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import quote, quote_plus

REDACTED = "[redacted]"

SECRET_KEYS = re.compile(
    r"pass(word|wd|phrase)?|secret|token|api[-_]?key|authorization|auth|credential|cookie|private[-_]?key|session[-_]?id",
    re.IGNORECASE,
)
"""Names whose values are secrets wherever they stand."""

SECRET_PATTERNS: tuple[re.Pattern[str], ...] = (
    re.compile(r"(?i)\b(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(r"\b(?:sk|pk|rk|ghp|gho|ghs|github_pat|glpat|xox[abprs])[-_][A-Za-z0-9_-]{10,}"),
    re.compile(r"\bAKIA[0-9A-Z]{16}\b"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
)

_MIN_SECRET_CHARS = 4
"""A shorter value is a word like "true" more often than a secret; replacing it would spoil all text."""

_COMMON = frozenset({"true", "false", "none", "null", "info", "debug", "warning", "error", "bearer", "basic"})


class Redactor:
    """Replaces known secret values, things that look like credentials, and the values of telling keys.

    Args:
        secrets: values that must never be seen.
        keys: matched against the whole of a mapping's key by `search`.
        patterns: what else looks like a secret.
        max_chars: longer text is cut.
    """

    def __init__(
        self,
        secrets: Iterable[str] = (),
        *,
        keys: re.Pattern[str] = SECRET_KEYS,
        patterns: Sequence[re.Pattern[str]] = SECRET_PATTERNS,
        max_chars: int | None = None,
    ) -> None:
        self._keys = keys
        self._patterns = tuple(patterns)
        self._max_chars = max_chars
        self._secrets: set[str] = set()
        self._known: re.Pattern[str] | None = None
        for secret in secrets:
            self.add_secret(secret)

    def add_secret(self, value: str) -> None:
        """Never show this value from now on, nor its form in a URL or in JSON. Values under four characters, and common
        words, are left alone."""
        if len(value) >= _MIN_SECRET_CHARS and value.lower() not in _COMMON:
            self._secrets |= {value, quote(value, safe=""), quote_plus(value), json.dumps(value)[1:-1]}
            longest_first = sorted(self._secrets, key=len, reverse=True)
            self._known = re.compile("|".join(re.escape(secret) for secret in longest_first))

    def text(self, text: str) -> str:
        """`text` without secrets."""
        if self._known is not None:
            text = self._known.sub(REDACTED, text)
        for pattern in self._patterns:
            text = pattern.sub(REDACTED, text)
        if self._max_chars is not None and len(text) > self._max_chars:
            text = text[: self._max_chars] + " ..."
        return text

    def value(self, value: Any, *, max_depth: int = 64) -> Any:
        """A copy of JSON-like data without secrets; the values of telling keys are replaced whole, and what is nested
        deeper than `max_depth` is left out."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, (Mapping, list, tuple)) and max_depth < 1:
            return "..."
        if isinstance(value, Mapping):
            return {
                self.text(key) if isinstance(key, str) else key: REDACTED
                if self._keys.search(str(key))
                else self.value(item, max_depth=max_depth - 1)
                for key, item in cast("Mapping[Any, Any]", value).items()
            }
        if isinstance(value, (list, tuple)):
            return [self.value(item, max_depth=max_depth - 1) for item in cast("Sequence[Any]", value)]
        return value

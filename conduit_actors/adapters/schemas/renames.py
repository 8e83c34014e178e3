"""Property keys that a provider refuses: renamed on the way out, given back on the way in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, cast

from conduit_actors.adapters.schemas.pointers import mapping, mappings_in, sendable

Renames: TypeAlias = tuple[tuple[str, str], ...]
"""Pairs of the new key and the original one."""

ANTHROPIC_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z")
"""Reported 400 of the Messages API: keys should match ``^[a-zA-Z0-9_.-]{1,64}$`` (2026-12-01)."""

GEMINI_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
"""Documented for ``parameters`` (google-genai 3.6.1, 2026-12-01)."""

_MAX_DEPTH = 200


class KeyNames:
    """New names for the keys of one schema. The same key always gets the same name, in every place.

    A name ends in a hash of the key, so it is stable from turn to turn, and a key that a model chose itself does not
    happen to be one. So the way back needs no paths, and reaches through unions, references and recursion.
    """

    def __init__(self, root: Mapping[str, Any], allowed: re.Pattern[str] | None) -> None:
        self._root = root
        self._allowed = allowed
        self._taken: set[str] | None = None
        self._new: dict[str, str] = {}

    def name(self, key: str) -> str:
        """The key itself if the provider takes it, else its new name."""
        if (self._allowed is None and sendable(key)) or (self._allowed is not None and self._allowed.match(key)):
            return key
        if key not in self._new:
            self._new[key] = self._invent(key)
        return self._new[key]

    def _invent(self, key: str) -> str:
        if self._taken is None:
            self._taken = {name for node in mappings_in(self._root) for name in mapping(node.get("properties"))}
        digest = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
        clean = re.sub(r"[^A-Za-z0-9_]+", "_", key)[:48].strip("_")
        stem = clean if clean and not clean[0].isdigit() else f"_{clean}"
        length = 4
        while (name := f"{stem}_{digest[:length]}") in self._taken or name in self._new.values():
            length += 1
        return name

    @property
    def renames(self) -> Renames:
        """What was renamed."""
        return tuple((new, old) for old, new in self._new.items())


def restore(arguments: Mapping[str, Any], renames: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The arguments with the original property keys, at every depth. Never changes its input."""
    originals = dict(renames)
    if not originals:
        return dict(arguments)
    return cast("dict[str, Any]", _restored(arguments, originals, 0))


def _restored(value: Any, originals: Mapping[str, str], depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, Mapping):
        found = cast("Mapping[str, Any]", value)
        return {originals.get(key, key): _restored(item, originals, depth + 1) for key, item in found.items()}
    if isinstance(value, list):
        return [_restored(item, originals, depth + 1) for item in cast("list[Any]", value)]
    return value

"""The words of a schema that only a model reads: its titles and descriptions, without what a person would not see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from conduit_actors.media import visible

_WORDS = frozenset({"title", "description", "$comment"})
_DATA = frozenset({"enum", "const", "default", "examples", "required", "type"})
"""Values and names that the server compares: they stay as they are."""
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})


def readable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy whose titles and descriptions are what a person would see of them; hidden instructions to a model travel
    in zero-width and control characters. Ends on schemas of any depth: it does not recurse."""
    made: dict[str, Any] = {}
    done: dict[tuple[int, bool], Any] = {}  # what is shared stays shared, so a copy is never larger than its source
    # (source, its copy to fill, whether its keys are names and not keywords)
    to_do: list[tuple[Any, Any, bool]] = [(schema, made, False)]
    while to_do:
        source, copy, names = to_do.pop()
        is_object = isinstance(source, Mapping)
        pairs = cast("Iterable[tuple[Any, Any]]", source.items() if is_object else enumerate(source))
        for key, value in pairs:
            if not names and key in _WORDS and isinstance(value, str):
                value = visible(value)
            elif _has_children(value) and (names or key not in _DATA):
                below = not names and key in _NAMED
                child, value = value, done.get((id(value), below))
                if value is None:
                    value = done[id(child), below] = _empty(child)
                    to_do.append((child, value, below))
            if is_object:
                copy[key] = value
            else:
                copy.append(value)
    return made


def _has_children(value: Any) -> bool:
    return isinstance(value, (Mapping, list))


def _empty(value: Any) -> Any:
    return {} if isinstance(value, Mapping) else []

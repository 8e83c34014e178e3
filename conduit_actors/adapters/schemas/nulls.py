"""Taking back the nulls that strict mode makes a model send for optional properties it leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

Path: TypeAlias = tuple[str, ...]

ITEMS = "*"
"""Stands for every item of a list in a path. A property of this name, or one with a ``~`` first, gets a ``~``."""

ANY_DEPTH = "**"
"""Stands for any number of steps, none included: what follows is looked for at every depth."""


def step(name: str) -> str:
    """A property name as a step of a path."""
    return "~" + name if name in (ITEMS, ANY_DEPTH) or name.startswith("~") else name


def strip_nulls(arguments: Mapping[str, Any], null_paths: Iterable[Sequence[str]]) -> dict[str, Any]:
    """A copy without the null-valued properties that the paths name. Every other null stays."""
    result: Any = _copied(dict(arguments))
    # The deepest first: a property is looked into before it may be taken away.
    for path in sorted(null_paths, key=len, reverse=True):
        _strip(result, list(path))
    return cast("dict[str, Any]", result)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_copied(item) for item in cast("list[Any]", value)]
    return value


def _strip(value: Any, path: list[str]) -> None:
    if not path:
        return
    name, rest = path[0], path[1:]
    if name == ANY_DEPTH:
        for child in _children(value):
            _strip(child, path)
        _strip(value, rest)
        return
    if name == ITEMS:
        if isinstance(value, list):
            for item in cast("list[Any]", value):
                _strip(item, rest)
        return
    if name.startswith("~"):
        name = name[1:]
    if not isinstance(value, dict) or name not in value:
        return
    properties = cast("dict[str, Any]", value)
    if rest:
        _strip(properties[name], rest)
    elif properties[name] is None:
        del properties[name]


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []

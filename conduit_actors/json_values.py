"""What JSON can hold, and nothing else: the form in which arguments go through all stages of a call."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from conduit_actors.errors import InvalidArguments, bounded

MAX_DEPTH = 100
"""Levels of nesting that are taken; tools of real servers need under 20."""

_PATH_CHARS = 100


def plain_arguments(arguments: object) -> dict[str, Any]:
    """A copy of a call's arguments that shares nothing with the original; tuples become lists. None is ``{}``.

    Raises:
        InvalidArguments: they are no JSON object: bytes, sets, NaN, keys that are not text, half a surrogate pair,
            an object inside itself, or more than `MAX_DEPTH` levels.
    """
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise InvalidArguments("the arguments must be a JSON object")
    try:
        return plain_json(cast("Mapping[Any, Any]", arguments))
    except ValueError as error:
        raise InvalidArguments(f"the arguments are not JSON: {error}") from None


def plain_json(value: Any) -> Any:
    """A copy of a JSON value, made of plain dicts and lists.

    Raises:
        ValueError: JSON does not have such a value; the text says where and why.
    """
    return _copy(value, "", MAX_DEPTH)


def _copy(value: Any, path: str, levels: int) -> Any:
    if isinstance(value, str):
        if not value.isascii():
            _check_text(value, path)
        return value
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise ValueError(f"{_at(path)} is {value}")
    if levels == 0:
        raise ValueError(f"they are nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, Mapping):
        found: dict[str, Any] = {}
        for key, item in cast("Mapping[Any, Any]", value).items():
            if not isinstance(key, str):
                raise ValueError(f"{_at(path)} has a key that is not text but {type(key).__name__}")
            _check_text(key, path)
            found[key] = _copy(item, f"{path}.{key}" if path else key, levels - 1)
        return found
    if isinstance(value, (list, tuple)):
        return [_copy(item, path, levels - 1) for item in cast("list[Any]", value)]
    raise ValueError(f"{_at(path)} is {type(value).__name__}")


def _check_text(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{_at(path)} has half a surrogate pair") from None


def _at(path: str) -> str:
    return bounded(path, _PATH_CHARS) if path else "the root"

"""Values that Python code can hand over and JSON does not have."""

from __future__ import annotations

from typing import Any


def _nested(levels: int, wrap: Any) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = wrap(value)
    return value


class _NotCopied:
    def __deepcopy__(self, memo: object) -> Any:
        raise KeyError("no copy")


_CIRCULAR: dict[str, Any] = {}
_CIRCULAR |= {"a": _CIRCULAR, "b": _CIRCULAR}
NOT_JSON: dict[str, Any] = {
    "bytes": b"x",
    "a set": {1},
    "NaN": float("nan"),
    "infinity": [float("inf")],
    "half a surrogate pair": "\ud800",
    "a surrogate in a key": {"\ud800": 1},
    "a key that is a number": {1: 2},
    "an object": _NotCopied(),
    "a circle": _CIRCULAR,
    "deep dicts": _nested(3_000, lambda value: {"a": value}),
    "deep tuples": _nested(3_000, lambda value: (value,)),
}

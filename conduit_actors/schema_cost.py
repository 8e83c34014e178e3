"""How much work a schema can make of a value, told before any value is checked.

A validator follows every alternative and every reference, and remembers nothing. Twenty-five definitions that each say
"one of these two, both the next definition" make 2**25 visits of one value, and a recursive schema that reaches itself
twice at the same place makes 2**depth. Both come from servers, so both are looked for here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, cast

MAX_NODES = 20_000
"""Schemas visited when every reference is followed; the largest of some 400 schemas of real tools has under 1,000."""

_MAX_VISITS = 200_000
"""Visits of a recursive schema, to check a value and to say what is wrong with it."""

_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE = ("not", "if", "then", "else")
_CHILDREN = (
    "items",
    "additionalItems",
    "contains",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_NAMED = ("properties", "patternProperties", "dependentSchemas")

_Place = tuple[str, ...]


class TooCostly(ValueError):
    """The schema makes more work than a validator should be given."""


def depth_limit(schema: Mapping[str, Any]) -> int | None:
    """How many levels deep a value may be so that checking it stays cheap; None: as deep as it likes.

    Raises:
        TooCostly: a value of one level can be too much already.
    """
    walk = _Walk(schema)
    walk.visit(schema, (), {})
    branching = max(walk.returns.values(), default=1)
    # Telling what is wrong goes through each alternative twice: to see that it fails, and to say why.
    return None if branching < 2 else max(1, int(math.log(_MAX_VISITS, 2 * branching)))


class _Walk:
    """Follows everything once per way that leads to it, within a bound.

    Attributes:
        returns: per recursive schema and place below it, how many ways lead back to the schema.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._nodes = 0
        self.returns: Counter[tuple[int, _Place, _Place]] = Counter()

    def visit(self, schema: object, place: _Place, open_at: Mapping[int, _Place]) -> None:
        """`open_at` has the references that are being followed, and the place where each was met."""
        if not isinstance(schema, Mapping):
            return
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise TooCostly(f"it unfolds to more than {MAX_NODES} schemas")
        found = cast("Mapping[str, Any]", schema)
        if id(found) in open_at:
            self.returns[id(found), open_at[id(found)], place] += 1
            return
        below = {**open_at, id(found): place}
        for child, step in _parts(found):
            self.visit(child, (*place, step) if step else place, below)
        target = _target(self._root, found.get("$ref"))
        if target is not None:
            self.visit(target, place, below)


def _parts(schema: Mapping[str, Any]) -> Iterator[tuple[object, str]]:
    """The subschemas, each with the step to the value that it is for; no step: the same value."""
    for word in _IN_PLACE_LISTS:
        for one in _listed(schema.get(word)):
            yield one, ""
    for word in _IN_PLACE:
        yield schema.get(word), ""
    for word in _CHILDREN:
        for one in _listed(schema.get(word)) or (schema.get(word),):
            yield one, word
    for number, one in enumerate(_listed(schema.get("prefixItems"))):
        yield one, f"#{number}"
    for word in _NAMED:
        named = schema.get(word)
        if isinstance(named, Mapping):
            for name, one in cast("Mapping[str, Any]", named).items():
                yield one, {"properties": f".{name}", "patternProperties": "/"}.get(word, "")


def _listed(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _target(root: Mapping[str, Any], reference: object) -> object:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    target: object = root
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        target = cast("Mapping[str, object]", target).get(name) if isinstance(target, Mapping) else None
    return target

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
_STEPS = {
    "items": "#items",
    "additionalItems": "#additional",
    "contains": "#contains",
    "unevaluatedItems": "#unevaluated",
    "additionalProperties": ".*additional",
    "unevaluatedProperties": ".*unevaluated",
}
_PATTERN_STEP = ".*pattern"
_WIDE = frozenset({*_STEPS.values(), _PATTERN_STEP})
_NAMED = ("properties", "patternProperties", "dependentSchemas")

_MAX_COMPARED = 100_000
"""Pairs of places that are compared."""

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
    branching = _branching(walk.returns)
    # Telling what is wrong goes through each alternative twice: to see that it fails, and to say why.
    return None if branching < 2 else max(1, int(math.log(_MAX_VISITS, 2 * branching)))


_Return = tuple[int, _Place, _Place]


def _branching(returns: Counter[_Return]) -> int:
    """The most ways that lead back to a schema at one place, wider steps that may be for the same value included.

    Raises:
        TooCostly: there are too many to compare.
    """
    wide = [one for one in returns if not _WIDE.isdisjoint((*one[1], *one[2]))]
    if len(wide) * len(returns) > _MAX_COMPARED:
        raise TooCostly("it refers to itself in too many places")
    most = max(returns.values(), default=1)
    for place, ways in returns.items():
        meeting = [other for other in wide if other != place and _same_value(other, place)]
        most = max(most, ways + sum(returns[other] for other in meeting))
    return most


def _same_value(left: _Return, right: _Return) -> bool:
    return left[0] == right[0] and all(
        len(one) == len(other) and all(map(_may_meet, one, other))
        for one, other in ((left[1], right[1]), (left[2], right[2]))
    )


def _may_meet(left: str, right: str) -> bool:
    """Whether two steps can lead to one value: a property goes by its name and by every pattern, an item by its place
    and by what holds for all items or for some."""
    return left == right or (left[0] == right[0] and (left in _WIDE or right in _WIDE))


class _Walk:
    """Follows everything once per way that leads to it, within a bound.

    Attributes:
        returns: per recursive schema and place below it, how many ways lead back to the schema.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._nodes = 0
        self.returns: Counter[_Return] = Counter()

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
    for word in _STEPS:
        for one in _listed(schema.get(word)) or (schema.get(word),):
            yield one, _STEPS[word]
    for number, one in enumerate(_listed(schema.get("prefixItems"))):
        yield one, f"#{number}"
    for word in _NAMED:
        named = schema.get(word)
        if isinstance(named, Mapping):
            for name, one in cast("Mapping[str, Any]", named).items():
                yield one, {"properties": f".{name}", "patternProperties": _PATTERN_STEP}.get(word, "")


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

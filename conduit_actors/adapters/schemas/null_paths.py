"""Where strict mode makes a model send null for a property that it leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from conduit_actors.adapters.schemas.combine import (
    Schema,
    exclusive,
    inline_all_of,
    inline_reference,
    union_branches,
)
from conduit_actors.adapters.schemas.pointers import Where, accepts_null, lookup, names_in, types_of
from conduit_actors.errors import UnsupportedSchema

Path: TypeAlias = tuple[str, ...]

ITEMS = "*"
"""Stands for every item of a list in a path. A property of this name, or one with a ``~`` first, gets a ``~``."""

ANY_DEPTH = "**"
"""Stands for any number of steps, none included: what follows is looked for at every depth."""

MAX_PATHS = 20_000
_MAX_VISITS = 50_000


def step(name: str) -> str:
    """A property name as a step of a path."""
    return "~" + name if name in (ITEMS, ANY_DEPTH) or name.startswith("~") else name


def find_null_paths(root: Schema, body: Schema) -> tuple[Path, ...]:
    """The paths of all optional properties that cannot be null, for a schema that the strict compiler took.

    Raises:
        UnsupportedSchema: a null could mean both "left out" and null, or there are too many paths.
    """
    return tuple(sorted(_Finder(root, body).find(body, ()).stripped))


@dataclass(slots=True)
class _Nulls:
    """Paths whose null stands for "left out", paths whose null is a value, and definitions met within themselves."""

    stripped: set[Path] = field(default_factory=set[Path])
    kept: set[Path] = field(default_factory=set[Path])
    loops: set[str] = field(default_factory=set[str])

    def add(self, other: _Nulls, prefix: Path = ()) -> None:
        self.stripped |= {prefix + path for path in other.stripped} if prefix else other.stripped
        self.kept |= {prefix + path for path in other.kept} if prefix else other.kept
        self.loops |= other.loops
        if len(self.stripped) + len(self.kept) > MAX_PATHS:
            raise UnsupportedSchema(f"more than {MAX_PATHS} places for a null")


class _Finder:
    def __init__(self, root: Schema, body: Schema) -> None:
        self._root = root
        self._body = body
        self._known: dict[str, _Nulls] = {}
        self._open: dict[str, int] = {}
        self._visits = 0
        self._steps = 0

    def find(self, schema: Schema, where: Where) -> _Nulls:
        self._visits += 1
        if self._visits > _MAX_VISITS:
            raise UnsupportedSchema(f"more than {_MAX_VISITS} schemas", where)
        if "$ref" in schema:
            joined = inline_reference(self._root, schema, where)
            return self._referred(schema["$ref"], where) if joined is None else self.find(joined, where)
        if "allOf" in schema:
            return self.find(inline_all_of(schema, where), where)
        if "oneOf" in schema or "anyOf" in schema:
            return self._union(schema, where)
        nulls = _Nulls()
        names = types_of(schema)
        self._steps += 1
        if "object" in names:
            self._object(schema, where, nulls)
        if "array" in names:
            nulls.add(self.find(cast("Schema", schema["items"]), (*where, "items")), (ITEMS,))
        self._steps -= 1
        return nulls

    def _object(self, schema: Schema, where: Where, nulls: _Nulls) -> None:
        required = names_in(schema.get("required"))
        for name, one in cast("Mapping[str, Schema]", schema.get("properties") or {}).items():
            path = (step(name),)
            nulls.add(self.find(one, (*where, "properties", name)), path)
            if accepts_null(self._root, one):
                nulls.kept.add(path)
            elif name not in required:
                nulls.stripped.add(path)

    def _union(self, schema: Schema, where: Where) -> _Nulls:
        nulls = _Nulls()
        branches = union_branches(self._root, schema, where)
        for branch, here in branches:
            nulls.add(self.find(branch, here))
        clash = nulls.stripped & nulls.kept
        if clash and not exclusive(self._root, [branch for branch, _ in branches]):
            raise UnsupportedSchema(f"null means two things at {'.'.join(min(clash))}", where)
        return nulls

    def _referred(self, reference: str, where: Where) -> _Nulls:
        if reference in self._open:
            if self._open[reference] == self._steps:
                raise UnsupportedSchema("$ref that leads back to itself", (*where, "$ref"))
            return _Nulls(loops={reference})
        if reference not in self._known:
            target: Any = lookup(self._root, reference)
            self._open[reference] = self._steps
            found = self.find(self._body if target is self._root else target, where)
            del self._open[reference]
            nulls = _Nulls(set(found.stripped), set(found.kept), found.loops - {reference})
            if reference in found.loops:
                # The same again at any depth below it.
                nulls.stripped |= {(ANY_DEPTH, path[-1]) for path in found.stripped}
                nulls.kept |= {(ANY_DEPTH, path[-1]) for path in found.kept}
            if nulls.loops:
                return nulls  # a part of a larger circle, not known in full before that is closed
            self._known[reference] = nulls
        return self._known[reference]

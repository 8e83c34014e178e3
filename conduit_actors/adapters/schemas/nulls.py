"""Taking back the nulls that strict mode makes a model send for optional properties it leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from conduit_actors.adapters.schemas.combine import Schema
from conduit_actors.adapters.schemas.null_paths import ANY_DEPTH, ITEMS, Path, step
from conduit_actors.adapters.schemas.pointers import (
    accepts_null,
    listed,
    mapping,
    names_in,
    resolve,
    type_of_value,
    types_of,
)

_MAX_DEPTH = 100

Paths: TypeAlias = frozenset[Path]


def strip_nulls(
    arguments: Mapping[str, Any], null_paths: Iterable[Sequence[str]], schema: Mapping[str, Any]
) -> dict[str, Any]:
    """A copy of the arguments without the nulls that stand for "left out".

    A null is taken away only where a path leads to it *and* its property is optional and cannot be null in the schema
    that the server gave; every other null is a value and stays. In a union the branch decides that the value fits.

    Args:
        null_paths: from `strict.strict_schema`.
        schema: the original input schema, not the converted one.
    """
    stripped = _Stripper(schema).strip(schema, arguments, frozenset(tuple(path) for path in null_paths), 0)
    return dict(cast("Mapping[str, Any]", stripped))


class _Stripper:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._fits: dict[tuple[int, int], bool] = {}

    def strip(self, node: Any, value: Any, paths: Paths, depth: int) -> Any:
        if not paths or depth > _MAX_DEPTH or not isinstance(value, (Mapping, list)):
            return value
        schema = resolve(self._root, node)
        if not isinstance(schema, Mapping):
            return cast("Any", value)
        found = cast("Schema", schema)
        for branch in listed(found.get("allOf")):
            value = self.strip(branch, value, paths, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            for branch in listed(found.get(keyword)):
                if self.fits(branch, value, depth):
                    value = self.strip(branch, value, paths, depth + 1)
                    break
        if isinstance(value, list):
            deeper = _after(paths, ITEMS)
            items = found.get("items")
            return [self.strip(items, item, deeper, depth + 1) for item in cast("list[Any]", value)]
        return self._strip_object(found, cast("Mapping[str, Any]", value), paths, depth)

    def _strip_object(self, schema: Schema, value: Mapping[str, Any], paths: Paths, depth: int) -> dict[str, Any]:
        properties = mapping(schema.get("properties"))
        kept: dict[str, Any] = {}
        for name, item in value.items():
            if name not in properties:
                kept[name] = item
                continue
            deeper = _after(paths, step(name))
            if item is None and () in deeper and self._stands_for_nothing(schema, name):
                continue
            kept[name] = self.strip(properties[name], item, deeper, depth + 1)
        return kept

    def _stands_for_nothing(self, schema: Schema, name: str) -> bool:
        optional = name not in names_in(schema.get("required"))
        return optional and not accepts_null(self._root, mapping(schema["properties"])[name])

    def fits(self, node: Any, value: Any, depth: int) -> bool:
        """Whether a value has the shape of a schema, once the nulls that stand for "left out" are gone.

        Only what can tell branches apart is looked at: types, constants, properties, items.
        """
        if isinstance(node, bool):
            return node
        schema = resolve(self._root, node)
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return True
        found = cast("Schema", schema)
        if not isinstance(value, (Mapping, list)):
            return self._shaped(found, value, depth)
        key = (id(found), id(cast("object", value)))
        if key not in self._fits:
            self._fits[key] = True  # while it is being found out, a circle says nothing
            self._fits[key] = self._shaped(found, value, depth)
        return self._fits[key]

    def _shaped(self, schema: Schema, value: Any, depth: int) -> bool:
        kind = type_of_value(value)
        if (names := types_of(schema)) and not _has_type(value, kind, names):
            return False
        if "const" in schema and not _same(schema["const"], value):
            return False
        if isinstance(schema.get("enum"), list) and not any(_same(one, value) for one in schema["enum"]):
            return False
        for keyword in ("anyOf", "oneOf"):
            branches = listed(schema.get(keyword))
            if branches and not any(self.fits(branch, value, depth + 1) for branch in branches):
                return False
        if not all(self.fits(branch, value, depth + 1) for branch in listed(schema.get("allOf"))):
            return False
        if isinstance(value, list):
            items = schema.get("items", True)
            return all(self.fits(items, item, depth + 1) for item in cast("list[Any]", value))
        return kind != "object" or self._shaped_object(schema, cast("Mapping[str, Any]", value), depth)

    def _shaped_object(self, schema: Schema, value: Mapping[str, Any], depth: int) -> bool:
        properties = mapping(schema.get("properties"))
        if any(name not in value for name in names_in(schema.get("required"))):
            return False
        # Strict mode closes every object, so a property that is not known tells branches apart.
        if properties and any(name not in properties for name in value):
            return False
        return all(
            (item is None and self._stands_for_nothing(schema, name)) or self.fits(properties[name], item, depth + 1)
            for name, item in value.items()
            if name in properties
        )


def _has_type(value: Any, kind: str, names: tuple[str, ...]) -> bool:
    if kind == "integer":
        return "integer" in names or "number" in names
    return kind in names or (kind == "number" and "integer" in names and float(value).is_integer())


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, (Mapping, list)):
        return False  # strict mode has no such constants
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def _after(paths: Paths, name: str) -> Paths:
    """What is left of the paths after one step."""
    left: set[Path] = set()
    for path in paths:
        if path[:1] == (ANY_DEPTH,):
            left.add(path)
            path = path[1:]
        if path[:1] == (name,):
            left.add(path[1:])
    return frozenset(left)

"""The keywords of JSON Schema 2020-12 that hold a literal value, and which values they may hold."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard, cast

import jsonschema_rs

from conduit_actors.adapters.schemas.pointers import cleaned, listed, mapping, sendable, too_deep

_REGEX = jsonschema_rs.Draft202012Validator({"format": "regex"}, validate_formats=True)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and sendable(value)


def is_regex(value: Any) -> TypeGuard[str]:
    """Whether a value is a regular expression of ECMA-262, the dialect of JSON Schema 2020-12; Python's is another."""
    return _is_text(value) and _REGEX.is_valid(value)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether a value is a number that JSON can hold; a bool is not one."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_positive(value: Any) -> bool:
    return is_number(value) and value > 0


def is_literal(value: Any) -> bool:
    """Whether a value can be sent as JSON: no NaN, no lone surrogate, not nested too deep."""
    if value is None or isinstance(value, (bool, int)):
        return True
    if isinstance(value, str):
        return sendable(value)
    if isinstance(value, float):
        return math.isfinite(value)
    if too_deep(value):
        return False
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:  # NaN or infinite, or a surrogate
        return False
    return True


def _is_dependency(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(names, list) and all(map(_is_text, listed(cast("Any", names))))
        for names in mapping(cast("Any", value)).values()
    )


LITERALS: dict[str, Callable[[Any], bool]] = {
    "pattern": is_regex,
    **dict.fromkeys(("format", "contentEncoding", "contentMediaType"), _is_text),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), is_number),
    "multipleOf": _is_positive,
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_count),
    **dict.fromkeys(("minContains", "maxContains"), _is_count),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _is_bool),
    "dependentRequired": _is_dependency,
    "examples": lambda value: isinstance(value, list) and is_literal(value),
}
"""What a keyword's value must be; of keywords that are not listed, anything that can be sent."""

IDENTITY = frozenset(
    {"$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", "$comment"}
)
"""Says where a schema lives, not what it means. References are resolved before, and a base URI would move them."""


def repaired_literals(schema: dict[str, Any], changed: Callable[[str], None]) -> None:
    """Take out, in place, what no provider can read: values of the wrong kind, identities, unsendable literals."""
    _modernise(schema)
    for key in list(schema):
        value = schema[key]
        if key in IDENTITY:
            del schema[key]
        elif key in ("title", "description"):
            if isinstance(value, str):
                schema[key] = cleaned(value)
            else:
                del schema[key]
        elif key == "enum":
            values = [one for one in listed(value) if is_literal(one)]
            if values:
                schema[key] = values
            else:
                del schema[key]
                changed("an enum without values was left out")
        elif key in LITERALS and not LITERALS[key](value):
            del schema[key]
            changed(f"{key} with a wrong value was left out")


def _modernise(schema: dict[str, Any]) -> None:
    """Draft-04 had bounds that are said to be exclusive by a flag."""
    for bound, flag in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(schema.get(flag), bool):
            exclusive = schema.pop(flag)
            if exclusive and is_number(schema.get(bound)):
                schema[flag] = schema.pop(bound)

"""A model's arguments: parsed, repaired where the schema says so, and validated. Never guessed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NoReturn, cast

import jsonschema_rs

from conduit_actors.errors import InvalidArguments, bounded
from conduit_actors.json_values import MAX_DEPTH, plain_json
from conduit_actors.schema_cost import TooCostly, depth_limit

_MAX_ERRORS = 3


def parse_arguments(value: object, *, max_chars: int = 10_000_000, max_echo: int = 500) -> dict[str, Any]:
    """The JSON object that a model gave as arguments, as text or already decoded.

    Absent, empty and blank text is ``{}``. Everything that is not an object is refused, and so is what JSON does not
    have: NaN and infinities, duplicate keys, truncated text.

    Raises:
        InvalidArguments: with the reason, and at most `max_echo` characters of the text.
    """
    if value is None:
        return {}
    if isinstance(value, Mapping):
        parsed: object = dict(cast("Mapping[str, Any]", value))
    elif isinstance(value, str):
        if len(value) > max_chars:
            raise InvalidArguments(f"the arguments are {len(value)} characters long; at most {max_chars} are taken")
        if not value.strip():
            return {}
        parsed = _loads(value, max_echo)
    else:
        parsed = value
    if not isinstance(parsed, dict):
        raise InvalidArguments(f"the arguments must be a JSON object, not {_kind(parsed)}")
    arguments = cast("dict[str, Any]", parsed)
    if _too_deep(arguments):
        raise InvalidArguments(f"the arguments are nested more than {MAX_DEPTH} levels deep")
    return arguments


def _loads(text: str, max_echo: int) -> object:
    try:
        return _strictly(text)
    except RecursionError:
        raise InvalidArguments("the arguments are nested too deeply") from None
    except ValueError as error:
        echo = text if len(text) <= max_echo else f"{text[:max_echo]}..."
        raise InvalidArguments(f"the arguments are not valid JSON: {error}. They were: {echo}") from None


def _strictly(text: str) -> object:
    """What the text says, if it is JSON and says it once."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not JSON")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"the key {twice[:80]!r} is given twice")
        return found

    return json.loads(text, parse_constant=refuse, object_pairs_hook=unique)


def _kind(value: object) -> str:
    words = {"array": "a list", "string": "a string", "boolean": "a boolean", "number": "a number", "null": "null"}
    return words.get(_json_type(value), type(value).__name__)


def _too_deep(value: object, levels: int = MAX_DEPTH) -> bool:
    level: list[object] = [value]
    for _ in range(levels):
        level = [
            child
            for item in level
            if isinstance(item, (dict, list))
            for child in (
                cast("dict[str, object]", item).values() if isinstance(item, dict) else cast("list[object]", item)
            )
        ]
        if not level:
            return False
    return True


class ArgumentValidator:
    """Checks arguments against one tool's input schema.

    The dialect is the schema's ``$schema``, else (or if that is not known) 2020-12. Only local references are followed,
    nothing is fetched. A schema that is itself invalid, or that could keep the validator busy for long, validates
    nothing and says so in `problem`; the server then has to check.
    """

    def __init__(self, schema: Mapping[str, Any], *, max_echo: int = 500) -> None:
        self._schema = schema
        self._max_echo = max_echo
        self._validator: Any = None
        self._levels: int | None = None
        self.problem: str | None = None
        self._repairable = _has_repairs(schema)
        if _too_deep(schema):
            self.problem = "its schema is nested too deeply, so values are not checked"
            return
        try:
            self._levels = depth_limit(schema)
            self._validator = _compile(schema)
        except TooCostly as error:
            self.problem = f"its schema is too costly to check values against: {error}"
        except (ValueError, TypeError, RecursionError, jsonschema_rs.ReferencingError) as error:
            self.problem = f"its schema is not valid, so values are not checked: {str(error).splitlines()[0][:200]}"

    def repair(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Drop a null where the property is optional and not nullable; decode JSON text where only an object or a
        list is wanted. The input is not changed."""
        if not self._repairable:
            return dict(arguments)
        return _repair_object(self._schema, self._schema, arguments, depth=0)

    def fault(self, value: object) -> str | None:
        """What is wrong with a value, as path and reason of the first faults, or None. Bounded in size."""
        if self._validator is None:
            return None
        if self._levels is not None and _too_deep(value, self._levels):
            return f"nested more than {self._levels} levels deep, which is too costly to check for this schema"
        try:
            if self._validator.is_valid(value):
                return None
            errors = islice(self._validator.iter_errors(value), _MAX_ERRORS)
            faults = [_described(error, self._max_echo // _MAX_ERRORS) for error in errors]
        except (ValueError, TypeError) as error:
            # What JSON does not have: bytes, keys that are not text, half a surrogate pair.
            return f"not JSON: {bounded(str(error), self._max_echo // 2)}"
        return "; ".join(faults)

    def validate(self, arguments: Mapping[str, Any]) -> None:
        """Return if the arguments fit.

        Raises:
            InvalidArguments: with path and reason of the first faults, bounded in size.
        """
        fault = self.fault(arguments)
        if fault is not None:
            raise InvalidArguments(f"the arguments do not fit the tool: {fault}")


def _described(error: Any, limit: int) -> str:
    # The reason stands behind the value, so both ends are kept.
    path = ".".join(str(part) for part in error.instance_path) or "the root"
    return f"{bounded(path, limit // 3)}: {bounded(error.message, limit - limit // 3)}"


def check_output(validator: ArgumentValidator, structured: object) -> str | None:
    """A warning if structured content does not fit the tool's output schema. The result is used all the same."""
    if structured is None:
        return "the tool promised structured content and sent none"
    fault = validator.fault(structured)
    return None if fault is None else f"the structured content does not fit the output schema: {fault}"


def _compile(schema: Mapping[str, Any]) -> Any:
    # The linear engine cannot be stalled by a hostile pattern, but has no look-around; patterns that need it run in
    # an engine that backtracks, within a bound.
    try:
        return _validator(schema, jsonschema_rs.RegexOptions())
    except (ValueError, TypeError):
        return _validator(schema, jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000))


def _validator(schema: Mapping[str, Any], pattern_options: Any) -> Any:
    try:
        return jsonschema_rs.validator_for(dict(schema), pattern_options=pattern_options, retriever=_refuse_to_fetch)
    except ValueError as error:
        if "meta-schema" not in str(error) or "$schema" not in schema:
            raise
        known = {key: value for key, value in schema.items() if key != "$schema"}
        return jsonschema_rs.Draft202012Validator(known, pattern_options=pattern_options, retriever=_refuse_to_fetch)


def _refuse_to_fetch(uri: str) -> NoReturn:
    raise ValueError(f"references to other documents are not followed: {uri[:100]}")


def _types(schema: Mapping[str, Any]) -> set[str]:
    given = schema.get("type")
    if isinstance(given, str):
        return {given}
    return {one for one in cast("list[Any]", given) if isinstance(one, str)} if isinstance(given, list) else set()


def _resolve(root: Mapping[str, Any], schema: object) -> Mapping[str, Any] | None:
    """The schema itself, or what its local ``$ref`` points to; None where that cannot be told."""
    for _ in range(16):
        if not isinstance(schema, Mapping):
            return None
        found = cast("Mapping[str, Any]", schema)
        reference = found.get("$ref")
        if reference is None:
            return found
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        target: object = root
        for part in reference[1:].split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            target = target.get(name) if isinstance(target, Mapping) else None  # pyright: ignore
        schema = cast("object", target)
    return None


def _alternatives(root: Mapping[str, Any], schema: object) -> list[Mapping[str, Any]] | None:
    """The schemas one of which must hold; None where that cannot be told."""
    resolved = _resolve(root, schema)
    if resolved is None:
        return None
    union = resolved.get("anyOf", resolved.get("oneOf"))
    if not isinstance(union, list):
        return [resolved]
    found = [_resolve(root, one) for one in cast("list[Any]", union)]
    return None if any(one is None for one in found) else cast("list[Mapping[str, Any]]", found)


def _takes(root: Mapping[str, Any], schema: object, kind: str) -> bool:
    """Whether a value of this JSON type could be meant by the schema. In doubt it could."""
    alternatives = _alternatives(root, schema)
    if alternatives is None:
        return True
    for one in alternatives:
        if "const" in one:
            if _json_type(one["const"]) == kind:
                return True
            continue
        if "enum" in one and isinstance(one["enum"], list):
            if any(_json_type(value) == kind for value in cast("list[Any]", one["enum"])):
                return True
            continue
        types = _types(one)
        if one.get("nullable") is True and kind == "null":
            return True
        if kind in types or (not types and "anyOf" not in one and "properties" not in one and "items" not in one):
            return True
    return False


def _json_type(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, (int, float)):
        return "number"
    return "array" if isinstance(value, list) else "object"


def _repair_object(
    root: Mapping[str, Any], schema: Mapping[str, Any], value: Mapping[str, Any], depth: int
) -> dict[str, Any]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or depth > MAX_DEPTH:
        return dict(value)
    known = cast("Mapping[str, Any]", properties)
    given = schema.get("required")
    required: Sequence[Any] = cast("list[Any]", given) if isinstance(given, list) else ()
    repaired: dict[str, Any] = {}
    for name, item in value.items():
        if name not in known:
            repaired[name] = item
        elif item is None and name not in required and not _takes(root, known[name], "null"):
            continue
        else:
            repaired[name] = _repair_value(root, known[name], item, depth + 1)
    return repaired


def _repair_value(root: Mapping[str, Any], schema: object, value: Any, depth: int) -> Any:
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        wanted = {kind for kind in ("object", "array") if _takes(root, schema, kind)}
        if wanted and not _takes(root, schema, "string"):
            decoded = _decoded(value)
            if _json_type(decoded) in wanted:
                value = decoded
    resolved = _resolve(root, schema)
    if resolved is None:
        return value
    if isinstance(value, dict):
        return _repair_object(root, resolved, cast("dict[str, Any]", value), depth)
    items: object = resolved.get("items")
    if isinstance(value, list) and isinstance(items, Mapping) and depth <= MAX_DEPTH:
        return [_repair_value(root, cast("object", items), item, depth + 1) for item in cast("list[Any]", value)]
    return cast("Any", value)


def _decoded(text: str) -> Any:
    # As strict as with arguments that come as text: what JSON does not have stays the text that it is.
    try:
        return plain_json(_strictly(text))
    except (ValueError, RecursionError):
        return text


def _has_repairs(schema: Mapping[str, Any]) -> bool:
    return isinstance(schema.get("properties"), Mapping) and bool(schema["properties"])

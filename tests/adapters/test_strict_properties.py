"""The strict conversion on generated schemas and instances, and in an engine for constrained decoding."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import llguidance
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from conduit_actors.adapters.schemas.nulls import strip_nulls
from conduit_actors.adapters.schemas.pointers import accepts_null, resolve
from conduit_actors.adapters.schemas.strict import StrictSchema, strict_schema
from conduit_actors.errors import UnsupportedSchema
from schema_material import Schema, check_strict, real_tools, tool_schemas

TOKENIZER = llguidance.LLTokenizer("byte")
THOROUGH = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def assert_compiles(schema: Schema) -> None:
    """An independent engine can hold a model to the schema."""
    grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema))
    failed, messages = llguidance.LLMatcher.validate_grammar_with_warnings(grammar, TOKENIZER)
    assert not failed, messages


def converted(schema: Schema) -> StrictSchema:
    try:
        return strict_schema(schema)
    except UnsupportedSchema:
        assume(False)
        raise


class Instances:
    """Draws a value of the original schema together with the value of the strict schema that means the same."""

    def __init__(self, root: Schema, draw: Any) -> None:
        self._root = root
        self._draw = draw

    def pair(self, node: Any, depth: int = 0) -> tuple[Any, Any]:
        schema = resolve(self._root, node)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                return self.pair(self._draw(st.sampled_from(schema[keyword])), depth)
        if "const" in schema:
            return schema["const"], schema["const"]
        if "enum" in schema:
            value = self._draw(st.sampled_from(schema["enum"]))
            return value, value
        kind = schema["type"] if isinstance(schema["type"], str) else self._draw(st.sampled_from(schema["type"]))
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                pairs = [
                    self.pair(schema["items"], depth + 1)
                    for _ in range(0 if depth > 4 else self._draw(st.integers(0, 2)))
                ]
                return [one for one, _ in pairs], [one for _, one in pairs]
            case _:
                values = {"string": st.text(max_size=3), "integer": st.integers(-9, 9), "boolean": st.booleans()}
                value = self._draw(values.get(kind, st.none()))
                return value, value

    def _object(self, schema: Schema, depth: int) -> tuple[Any, Any]:
        plain: dict[str, Any] = {}
        strict: dict[str, Any] = {}
        for name, one in schema["properties"].items():
            must = name in schema["required"] or accepts_null(self._root, one)
            if must or (depth <= 4 and self._draw(st.booleans())):
                if depth > 4 and accepts_null(self._root, one):
                    plain[name] = strict[name] = None
                else:
                    plain[name], strict[name] = self.pair(one, depth + 1)
            else:
                strict[name] = None
        return plain, strict


@THOROUGH
@given(st.data())
def test_for_each_instance_there_is_a_strict_one_that_strips_back_to_it(data: st.DataObject) -> None:
    schema = data.draw(tool_schemas())
    strict = converted(schema)
    plain, sent = Instances(schema, data.draw).pair(schema)
    jsonschema.validate(plain, schema)
    jsonschema.validate(sent, strict.schema)
    assert strip_nulls(sent, strict.null_paths, schema) == plain


@THOROUGH
@given(st.data())
def test_what_the_strict_schema_accepts_fits_the_original_once_stripped(data: st.DataObject) -> None:
    schema = data.draw(tool_schemas())
    strict = converted(schema)
    sent, _ = Instances(strict.schema, data.draw).pair(strict.schema)
    jsonschema.validate(sent, strict.schema)
    jsonschema.validate(strip_nulls(sent, strict.null_paths, schema), schema)


@settings(THOROUGH, max_examples=150)
@given(tool_schemas())
def test_generated_strict_schemas_compile(schema: Schema) -> None:
    strict = converted(schema)
    check_strict(strict.schema)
    assert_compiles(strict.schema)


def test_at_least_327_of_the_393_real_tools_are_strict_and_each_refusal_is_true() -> None:
    tools = real_tools()
    assert len(tools) == 393
    strict = 0
    for name, schema in tools:
        try:
            made = strict_schema(schema)
        except UnsupportedSchema as refusal:
            target: Any = schema
            for part in refusal.path:
                target = target[part]
            match refusal.reason:
                case "open map" if refusal.path[-1] == "additionalProperties":
                    assert target is not False, name
                case "open map":
                    assert not target.get("properties"), name
                case "no type":
                    assert not {"type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const"} & target.keys(), name
                case keyword:
                    assert refusal.path[-1] == keyword, name
            continue
        strict += 1
        check_strict(made.schema)
        assert_compiles(made.schema)
    assert strict >= 327

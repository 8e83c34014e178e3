"""What happens to a schema on its way to a provider."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import llguidance
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conduit_actors.adapters import openai
from conduit_actors.adapters.schemas import normalise
from conduit_actors.adapters.schemas.nulls import strip_nulls
from conduit_actors.adapters.schemas.renames import ANTHROPIC_KEY, restore
from conduit_actors.adapters.schemas.strict import strict_schema
from conduit_actors.errors import UnsupportedSchema

REAL: list[tuple[str, Any]] = []
for file in sorted((Path(__file__).parents[1] / "data" / "tools").glob("*.json")):
    content = json.loads(file.read_text())
    for entry in content if isinstance(content, list) else content["tools"]:
        REAL.append((f"{file.stem}/{entry['name']}", entry.get("inputSchema") or entry.get("input_schema")))

TOKENIZER = llguidance.LLTokenizer("byte")


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def refused(schema: Any) -> UnsupportedSchema:
    with pytest.raises(UnsupportedSchema) as caught:
        strict_schema(schema)
    return caught.value


# The guide: OpenAI strict mode


def test_the_guides_example() -> None:
    schema = obj(q={"type": "string"}, limit={"type": "integer"}) | {"required": ["q"]}
    before = copy.deepcopy(schema)
    strict = openai.strict_schema(schema)
    assert strict.schema["properties"]["limit"] == {"type": ["integer", "null"]}
    assert strict.schema["required"] == ["q", "limit"]
    assert strict.schema["additionalProperties"] is False
    assert strict.null_paths == (("limit",),)
    assert schema == before


@pytest.mark.parametrize("root", [{"type": "string"}, {"anyOf": [{"type": "object"}]}, {}, True, [], None, 5])
def test_the_root_must_be_an_object_and_no_union(root: Any) -> None:
    refused(root)


def test_an_optional_property_becomes_nullable_in_each_way() -> None:
    schema = {
        **obj(
            plain={"type": "string"},
            listed={"type": ["string", "integer"]},
            enum={"type": "string", "enum": ["a"]},
            const={"const": "x"},
            union={"anyOf": [{"type": "string"}, {"type": "integer"}]},
            ref={"$ref": "#/$defs/D"},
            already={"type": ["string", "null"]},
        ),
        "$defs": {"D": obj(x={"type": "string"}) | {"required": ["x"]}},
    }
    strict = strict_schema(schema)
    found = strict.schema["properties"]
    null = {"type": "null"}
    assert found["plain"]["type"] == ["string", "null"]
    assert found["listed"]["type"] == ["string", "integer", "null"]
    assert found["enum"] == {"type": ["string", "null"], "enum": ["a", None]}
    assert found["const"]["anyOf"][-1] == null
    assert found["union"]["anyOf"][-1] == null
    assert found["ref"] == {"anyOf": [{"$ref": "#/$defs/D"}, null]}
    assert found["already"]["type"] == ["string", "null"]
    assert ("already",) not in strict.null_paths
    assert len(strict.null_paths) == 6


KEPT = {
    "pattern": ("string", "^a"),
    "minLength": ("string", 1),
    "maxLength": ("string", 9),
    "format": ("string", "date-time"),
    "multipleOf": ("number", 2),
    "minimum": ("number", 1),
    "maximum": ("number", 9),
    "exclusiveMinimum": ("number", 0),
    "exclusiveMaximum": ("number", 10),
    "title": ("string", "T"),
    "description": ("string", "D"),
    "enum": ("string", ["a", "b"]),
    "const": ("string", "a"),
}


@pytest.mark.parametrize("keyword", KEPT)
def test_kept(keyword: str) -> None:
    kind, value = KEPT[keyword]
    strict = strict_schema(obj(a={"type": kind, keyword: value}) | {"required": ["a"]})
    assert strict.schema["properties"]["a"][keyword] == value


def test_kept_on_arrays() -> None:
    array = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3}
    assert strict_schema(obj(a=array) | {"required": ["a"]}).schema["properties"]["a"] == array


UNSUPPORTED = {
    "allOf": [{"type": "string"}, {"minLength": 1}],
    "not": {},
    "oneOf": [{"type": "string"}, {"type": "string"}],
    "if": {},
    "dependentRequired": {},
    "dependentSchemas": {},
    "dependencies": {},
    "patternProperties": {},
    "unevaluatedProperties": False,
    "unevaluatedItems": False,
    "propertyNames": {},
    "prefixItems": [],
    "contains": {},
    "minContains": 1,
    "maxContains": 1,
    "$dynamicRef": "#x",
    "$recursiveRef": "#",
}


@pytest.mark.parametrize("keyword", UNSUPPORTED)
def test_unsupported_keywords_name_themselves_and_their_path(keyword: str) -> None:
    error = refused(obj(a={"type": "string", keyword: UNSUPPORTED[keyword]}))
    assert error.reason == keyword
    assert error.path == ("properties", "a", keyword)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "object"}, "open map"),
        ({"type": "object", "additionalProperties": True}, "open map"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "open map"),
        ({"type": "array"}, "array without items"),
        ({"description": "anything"}, "no type"),
        (True, "boolean schema"),
        ({"$ref": "https://example.com/x"}, "non-local $ref"),
        ({"$ref": "#/$defs/nowhere"}, "$ref that cannot be resolved"),
    ],
)
def test_unsupported_shapes(schema: Any, reason: str) -> None:
    error = refused(obj(a=schema))
    assert error.reason == reason
    assert error.path[:2] == ("properties", "a")


@pytest.mark.parametrize(
    "keyword", ["default", "examples", "uniqueItems", "minProperties", "contentMediaType", "x-vendor"]
)
def test_dropped(keyword: str) -> None:
    assert keyword not in strict_schema(obj(a={"type": "string", keyword: 1})).schema["properties"]["a"]


def test_other_formats_and_look_around_are_dropped() -> None:
    strict = strict_schema(obj(a={"type": "string", "format": "uri", "pattern": "(?=a)b"}) | {"required": ["a"]})
    assert strict.schema["properties"]["a"] == {"type": "string"}


def test_limits() -> None:
    assert "properties" in refused(obj(**{f"p{n}": {"type": "string"} for n in range(5_001)})).reason
    deep: Any = {"type": "string"}
    for _ in range(11):
        deep = obj(a=deep)
    assert "levels" in refused(deep).reason
    assert "enum values" in refused(obj(a={"type": "integer", "enum": list(range(1_001))})).reason
    long_enum = [f"{n:0100}" for n in range(251)]
    assert "15000" in refused(obj(a={"type": "string", "enum": long_enum})).reason
    assert "120000" in refused(obj(**{"k" * 60_001: {"type": "string"}, "j" * 60_001: {"type": "string"}})).reason
    strict_schema(obj(**{f"p{n}": {"type": "string"} for n in range(5_000)}))


# Beyond the guide


def test_exclusive_one_of_becomes_any_of_and_a_single_all_of_is_inlined() -> None:
    tagged = [obj(kind={"const": tag}) | {"required": ["kind"]} for tag in ("a", "b")]
    assert "anyOf" in strict_schema(obj(a={"oneOf": tagged})).schema["properties"]["a"]
    inlined = strict_schema(obj(a={"allOf": [{"type": "string"}], "description": "d"}) | {"required": ["a"]})
    assert inlined.schema["properties"]["a"] == {"type": "string", "description": "d"}


def test_recursion_is_kept_and_its_nulls_are_found_at_every_depth() -> None:
    node = obj(name={"type": "string"}, children={"type": "array", "items": {"$ref": "#/$defs/Node"}})
    schema = obj(tree={"$ref": "#/$defs/Node"}) | {
        "required": ["tree"],
        "$defs": {"Node": node | {"required": ["name"]}},
    }
    strict = strict_schema(schema)
    given = {"tree": {"name": "a", "children": [{"name": "b", "children": [{"name": "c", "children": None}]}]}}
    assert strip_nulls(given, strict.null_paths, schema)["tree"]["children"][0]["children"][0] == {"name": "c"}


def test_nulls_are_taken_back_through_lists_and_branches_and_real_nulls_stay() -> None:
    item = obj(a={"type": "string"}, b={"type": ["string", "null"]})
    schema = obj(items={"type": "array", "items": item}, either={"anyOf": [item, {"type": "string"}]})
    paths = strict_schema(schema).null_paths
    given = {"items": [{"a": None, "b": None}, {"a": "x", "b": None}], "either": {"a": None, "b": None}}
    assert strip_nulls(given, paths, schema) == {"items": [{"b": None}, {"a": "x", "b": None}], "either": {"b": None}}


def test_a_null_that_would_mean_two_things_is_a_reason_to_refuse() -> None:
    left = obj(x={"type": "string"})
    right = obj(x={"type": ["string", "null"]}) | {"required": ["x"]}
    assert "null means two things" in refused(obj(a={"anyOf": [left, right]})).reason


# On any schema


def test_at_least_327_of_the_393_real_tools_are_strict_and_each_refusal_is_true() -> None:
    assert len(REAL) == 393
    strict = 0
    for name, schema in REAL:
        try:
            converted = strict_schema(schema)
        except UnsupportedSchema as refusal:
            target: Any = schema
            for part in refusal.path:
                assert part in target if isinstance(target, dict) else part < len(target), (name, refusal.path)
                target = target[part]
            continue
        strict += 1
        grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(converted.schema))
        failed, messages = llguidance.LLMatcher.validate_grammar_with_warnings(grammar, TOKENIZER)
        assert not failed, (name, messages)
    assert strict >= 327


@pytest.mark.parametrize("provider", ["openai", "anthropic", "bedrock", "gemini"])
def test_every_real_tool_is_normalised_for_every_provider(provider: str) -> None:
    for name, schema in REAL:
        made = getattr(normalise, f"for_{provider}")(schema)
        assert made.schema["type"] == "object", name
        jsonschema.Draft202012Validator.check_schema(made.schema)
        if provider == "gemini":
            text = json.dumps(made.schema)
            assert '"$ref"' not in text
            assert '"const"' not in text
            assert '"oneOf"' not in text


def deep_schema(levels: int) -> dict[str, Any]:
    root: dict[str, Any] = {"type": "object"}
    node = root
    for _ in range(levels):
        node["properties"] = {"a": {"type": "object"}}
        node = node["properties"]["a"]
    return root


HOSTILE: dict[str, Any] = {
    "self": {"type": "object", "properties": {"a": {"$ref": "#"}}},
    "circle": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
    },
    "mutual": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": obj(b={"$ref": "#/$defs/B"}), "B": obj(a={"$ref": "#/$defs/A"})},
    },
    "deep": deep_schema(10_000),
    "large": obj(**{f"property_{n}": {"type": "string", "description": "x" * 200} for n in range(4_000)}),
    "laughs": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/d0"}},
        "$defs": {
            **{f"d{n}": obj(l={"$ref": f"#/$defs/d{n + 1}"}, r={"$ref": f"#/$defs/d{n + 1}"}) for n in range(30)},
            "d30": {"type": "string"},
        },
    },
    "wrong": {"type": "object", "properties": {"coin": {"type": "string"}, "required": ["coin"]}, "required": None},
    "union": {
        "oneOf": [{"required": ["id"]}, {"required": ["url"]}],
        "properties": {"id": {"type": "string"}, "url": {"type": "string"}},
    },
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_end_in_a_schema_or_a_refusal(name: str) -> None:
    for convert in (
        strict_schema,
        normalise.for_openai,
        normalise.for_anthropic,
        normalise.for_gemini,
        normalise.for_bedrock,
        lambda schema: normalise.for_gemini(schema, "openapi"),
    ):
        try:
            made = convert(HOSTILE[name])
        except UnsupportedSchema:
            continue
        assert len(json.dumps(made.schema)) < 20_000_000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=10,
)
keywords = st.sampled_from(
    [
        "type",
        "properties",
        "items",
        "required",
        "anyOf",
        "oneOf",
        "allOf",
        "enum",
        "const",
        "$ref",
        "$defs",
        "additionalProperties",
        "not",
        "description",
    ]
)
wild_schemas = st.recursive(
    json_values | st.sampled_from(["object", "string", "array", "#", "#/$defs/a", "#/properties/a"]),
    lambda children: st.dictionaries(keywords | st.just("a"), children | st.lists(children, max_size=3), max_size=5),
    max_leaves=25,
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(wild_schemas)
def test_any_json_value_converts_or_is_refused_and_is_not_changed(schema: Any) -> None:
    before = copy.deepcopy(schema)
    for convert in (strict_schema, normalise.for_openai, normalise.for_anthropic, normalise.for_gemini):
        try:
            made = convert(schema)
        except UnsupportedSchema:
            continue
        json.dumps(made.schema)
        assert made.schema["type"] == "object"
    assert schema == before


@st.composite
def good_schemas(draw: st.DrawFn, depth: int = 2) -> dict[str, Any]:
    kind = draw(
        st.sampled_from(
            ["string", "integer", "boolean", "nullable", "enum", "object", "array", "union"][: None if depth else 5]
        )
    )
    match kind:
        case "nullable":
            return {"type": ["string", "null"]}
        case "enum":
            return {"type": "string", "enum": ["a", "b"]}
        case "object":
            return draw(objects(depth - 1))
        case "array":
            return {"type": "array", "items": draw(good_schemas(depth - 1))}
        case "union":
            return {"anyOf": [draw(good_schemas(depth - 1)), {"type": "integer"}]}
        case _:
            return {"type": kind}


@st.composite
def objects(draw: st.DrawFn, depth: int = 2) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(["a", "b", "c", "*", "~x"]), unique=True, min_size=1))
    properties = {name: draw(good_schemas(depth)) for name in names}
    required = draw(st.lists(st.sampled_from(names), unique=True))
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def instance(draw: st.DrawFn, schema: Any) -> Any:
    if "anyOf" in schema:
        return instance(draw, draw(st.sampled_from(schema["anyOf"])))
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    kind = schema["type"] if isinstance(schema["type"], str) else draw(st.sampled_from(schema["type"]))
    match kind:
        case "object":
            return {
                name: instance(draw, one)
                for name, one in schema["properties"].items()
                if name in schema["required"] or draw(st.booleans())
            }
        case "array":
            return [instance(draw, schema["items"]) for _ in range(draw(st.integers(0, 2)))]
        case "string":
            return draw(st.text(max_size=3))
        case "integer":
            return draw(st.integers(-9, 9))
        case "boolean":
            return draw(st.booleans())
        case _:
            return None


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_what_the_strict_schema_accepts_strips_back_to_what_the_original_accepts(data: st.DataObject) -> None:
    schema = data.draw(objects())
    try:
        strict = strict_schema(schema)
    except UnsupportedSchema:
        return
    made = instance(data.draw, strict.schema)
    jsonschema.validate(made, strict.schema)
    jsonschema.validate(strip_nulls(made, strict.null_paths, schema), schema)


# Not strict


def test_renamed_keys_come_back() -> None:
    schema = obj(**{"größe": obj(**{"a b": {"type": "string"}}), "größe_": {"type": "string"}})
    made = normalise.for_anthropic(schema)
    assert all(ANTHROPIC_KEY.match(name) for name in made.schema["properties"])
    inner = made.schema["properties"][next(iter(made.schema["properties"]))]
    new = dict(zip(made.schema["properties"], [{next(iter(inner["properties"])): "x"}, "y"], strict=True))
    assert restore(new, made.renames) == {"größe": {"a b": "x"}, "größe_": "y"}


def test_a_root_union_is_folded_and_its_rule_goes_into_a_note() -> None:
    for convert in (normalise.for_openai, normalise.for_anthropic, normalise.for_gemini):
        made = convert(HOSTILE["union"])
        assert set(made.schema["properties"]) == {"id", "url"}
        assert "oneOf" not in made.schema
        assert "id; or url" in made.note


def test_openai_gets_properties_and_items_and_a_non_object_root_is_refused() -> None:
    assert normalise.for_openai({"type": "object"}).schema == {"type": "object", "properties": {}}
    assert normalise.for_openai(obj(a={"type": "array"})).schema["properties"]["a"]["items"] == {}
    with pytest.raises(UnsupportedSchema):
        normalise.for_openai({"type": "string"})


def test_geminis_types_are_single_in_both_dialects() -> None:
    schema = obj(value=True, languages={"type": ["array", "null"], "items": {"type": "string"}}, tag={"const": "x"})
    json_dialect = normalise.for_gemini(schema).schema["properties"]
    assert json_dialect["languages"] == {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}
    assert json_dialect["tag"]["enum"] == ["x"]
    openapi = normalise.for_gemini(schema, "openapi").schema
    assert openapi["type"] == "OBJECT"
    assert openapi["properties"]["languages"] == {"items": {"type": "STRING"}, "type": "ARRAY", "nullable": True}

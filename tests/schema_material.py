"""Schemas for tests: real tools' ones, hostile ones, generated ones; and what each provider is known to refuse."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

Schema = dict[str, Any]


def real_tools() -> list[tuple[str, Schema]]:
    """Name and input schema of 393 tools of 38 servers."""
    found: list[tuple[str, Schema]] = []
    for file in sorted((Path(__file__).parent / "data" / "tools").glob("*.json")):
        content = json.loads(file.read_text())
        for entry in content if isinstance(content, list) else content["tools"]:
            found.append((f"{file.stem}/{entry['name']}", entry.get("inputSchema") or entry.get("input_schema")))
    return found


def obj(*required: str, **properties: Any) -> Schema:
    """An object schema; `required` names the required ones of its properties."""
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def nested(levels: int, keyword: str = "properties") -> Schema:
    """Objects within objects, or arrays within arrays, or unions within unions."""
    root: Schema = {"type": "object", "properties": {}}
    node = root["properties"]["a"] = {}
    for _ in range(levels):
        child: Schema = {}
        if keyword == "properties":
            node.update({"type": "object", "properties": {"a": child}})
        elif keyword == "items":
            node.update({"type": "array", "items": child})
        elif keyword in ("anyOf", "oneOf", "allOf"):
            node[keyword] = [child]
        else:
            node[keyword] = child
        node = child
    node["type"] = "string"
    return root


def deep_value(levels: int) -> Any:
    """Lists within lists."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


LAUGHS: Schema = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/d0"}},
    "$defs": {
        **{f"d{n}": obj(l={"$ref": f"#/$defs/d{n + 1}"}, r={"$ref": f"#/$defs/d{n + 1}"}) for n in range(30)},
        "d30": {"type": "string"},
    },
}

HOSTILE: dict[str, Any] = {
    "refers to itself": {"type": "object", "properties": {"a": {"$ref": "#"}}},
    "is only a reference to itself": {"$ref": "#"},
    "references in a circle": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
    },
    "a union of itself": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}, {"type": "string"}]}},
    },
    "all of itself": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}]}},
    },
    "mutual recursion": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": obj(b={"$ref": "#/$defs/B"}), "B": obj(a={"$ref": "#/$defs/A"})},
    },
    "recursion in many places": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": obj(**{f"p{n}": {"$ref": "#/$defs/A"} for n in range(40)})},
    },
    "pointers into the body": {
        "type": "object",
        "properties": {"a": obj(x={"type": "string"}), "b": {"type": "array", "items": {"$ref": "#/properties/a"}}},
    },
    "pointers that do not fit": {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/properties/0/²"},
            "b": {"$ref": "#/allOf/" + "9" * 5_000},
            "c": {"$ref": 5},
            "d": {"$ref": "#nowhere"},
        },
        "required": ["a", 5, None],
    },
    "10,000 levels of objects": nested(10_000),
    "10,000 levels of arrays": nested(10_000, "items"),
    "10,000 levels of anyOf": nested(10_000, "anyOf"),
    "10,000 levels of allOf": nested(10_000, "allOf"),
    "10,000 levels of not": nested(10_000, "not"),
    "10,000 levels at the root": {"anyOf": [nested(10_000), nested(10_000)], "type": "object"},
    "10,000 levels of default": obj(a={"type": "string", "default": deep_value(10_000)}),
    "10,000 levels of enum": obj(a={"enum": [deep_value(10_000), "a"]}, b={"const": deep_value(10_000)}),
    "10,000 levels of a vendor's": obj(a={"type": "string", "x-vendor": deep_value(10_000)}),
    "1 MB": obj(**{f"property_{n}": {"type": "string", "description": "x" * 200} for n in range(4_000)}),
    "billion laughs": LAUGHS,
    "not a number": obj(a={"type": "number", "minimum": float("nan"), "default": float("inf")}),
    "lone surrogates": obj(a={"type": "string", "description": "\ud800", "enum": ["\udfff", "a"]}, **{"\ud83d": {}}),
    "required in properties": {"type": "object", "properties": {"a": {"type": "string"}, "required": ["a"]}},
    "required is null": {"type": "object", "properties": {"a": {"type": "string"}}, "required": None},
    "keywords of the wrong kind": {
        "type": ["object"],
        "title": 5,
        "properties": {
            "a": {"type": "text"},
            "b": {"type": ["string", "nonsense"], "minLength": "3", "pattern": 5, "enum": []},
            "c": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}], "maxItems": -1},
            "d": {"type": "integer", "minimum": 3, "exclusiveMinimum": True, "required": True},
            "e": "string",
            "f": {"anyOf": {}, "oneOf": [], "allOf": ["x"], "not": 5, "additionalProperties": "no"},
            "g": {"type": "object", "properties": [], "required": "a", "patternProperties": 5},
            "h": {"dependentRequired": {"a": 5}, "dependencies": {"a": ["b"]}, "$defs": 5},
        },
        "additionalProperties": None,
    },
    "either or": {
        "oneOf": [{"required": ["id"]}, {"required": ["url"]}],
        "properties": {"id": {"type": "string"}, "url": {"type": "string"}},
    },
    "boolean schemas": obj(a=True, b=False, c={"type": "array", "items": True}, d={"type": "array", "items": False}),
    "nothing": {},
    "true": True,
    "null": None,
}


# What providers are known to refuse (provider facts of 2026-12-01)


def schemas_in(schema: Any) -> Iterator[Schema]:
    """Every schema in a schema, itself included, that stands where a schema must stand."""
    stack: list[Any] = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, bool):
            continue
        assert isinstance(node, dict), f"not a schema: {node!r:.80}"
        yield node
        for keyword in ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"):
            stack.extend(node.get(keyword, {}).values())
        for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
            stack.extend(node.get(keyword, []))
        for keyword in ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"):
            if keyword in node:
                stack.append(node[keyword])


def check_sendable(schema: Schema) -> None:
    """JSON that can be encoded: no NaN, no lone surrogate, no bottomless nesting."""
    json.dumps(schema, allow_nan=False, ensure_ascii=False).encode()


def check_openai(schema: Schema) -> None:
    check_sendable(schema)
    assert schema["type"] == "object"
    assert not {"oneOf", "anyOf", "allOf", "enum", "not"} & schema.keys()
    for node in schemas_in(schema):
        if "$ref" in node:
            assert re.fullmatch(r"#/\$defs/[A-Za-z0-9_.-]+", node["$ref"])
            assert node["$ref"].removeprefix("#/$defs/") in schema["$defs"]
            continue
        if "object" in node.get("type", ""):
            assert isinstance(node["properties"], dict)
        if "array" in node.get("type", ""):
            assert "items" in node


def check_anthropic(schema: Schema) -> None:
    check_sendable(schema)
    assert schema["type"] == "object"
    assert not {"oneOf", "anyOf", "allOf"} & schema.keys()
    for node in schemas_in(schema):
        for name in node.get("properties", {}):
            assert re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name)


def check_gemini_json(schema: Schema) -> None:
    check_sendable(schema)
    assert schema["type"] == "object"
    known = {
        *("$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "items", "prefixItems"),
        *("minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties"),
        *("required", "propertyOrdering"),
    }
    for node in schemas_in(schema):
        assert node.keys() <= known
        assert "$ref" not in node
        assert isinstance(node.get("type", ""), str)
        assert all(type(value) in (str, int, float) for value in node.get("enum", []))
        if node.get("type") == "array":
            assert "items" in node
        if "items" in node:
            assert node["type"] == "array"


def check_gemini_openapi(schema: Schema) -> None:
    check_sendable(schema)
    assert schema["type"] == "OBJECT"
    refused = {
        *("const", "exclusiveMinimum", "exclusiveMaximum", "oneOf", "allOf", "uniqueItems", "multipleOf", "$schema"),
        *("examples", "patternProperties", "$ref", "$defs", "not", "default", "prefixItems", "additionalProperties"),
    }
    for node in schemas_in(schema):
        assert not refused & node.keys()
        assert "anyOf" in node or node["type"] in ("STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT")
        assert all(isinstance(value, str) for value in node.get("enum", []))
        if node is not schema and node.get("type") == "OBJECT":
            assert node["properties"], "should be non-empty for OBJECT type"
        if node.get("type") == "ARRAY":
            assert "items" in node
        for name in node.get("properties", {}):
            assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", name)
        assert set(node.get("required", [])) <= node.get("properties", {}).keys()


def check_strict(schema: Schema) -> None:
    """OpenAI's strict subset, as far as it can be told without the API."""
    check_sendable(schema)
    assert schema["type"] == "object"
    known = {
        *("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs"),
        *("definitions", "description", "title", "pattern", "minLength", "maxLength", "multipleOf", "minimum"),
        *("maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems", "format"),
    }
    for node in schemas_in(schema):
        assert node.keys() <= known
        if "$ref" in node:
            assert len(node) == 1, "nothing may stand beside a $ref"
            section, name = node["$ref"].removeprefix("#/").split("/")
            assert name in schema[section]
        elif "anyOf" not in node:
            assert node["type"]
        if "object" in node.get("type", ""):
            assert node["additionalProperties"] is False
            assert node["required"] == list(node["properties"])
        if "array" in node.get("type", ""):
            assert "items" in node


# Generated schemas

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=10,
)

_KEYWORDS = (
    *("type", "properties", "items", "required", "anyOf", "oneOf", "allOf", "enum", "const", "$ref", "$defs", "not"),
    *("additionalProperties", "description", "default", "prefixItems", "patternProperties", "minimum", "nullable"),
    *("if", "dependentRequired", "format", "pattern", "exclusiveMinimum", "examples", "$schema", "minItems"),
)
_WORDS = ("object", "string", "array", "integer", "null", "#", "#/$defs/a", "#/properties/a", "#/items", "#a")

wild_schemas = st.recursive(
    json_values | st.sampled_from(_WORDS),
    lambda children: st.dictionaries(
        st.sampled_from(_KEYWORDS) | st.sampled_from(["a", "größe"]),
        children | st.lists(children, max_size=3),
        max_size=6,
    ),
    max_leaves=30,
)
"""Any JSON value, mostly one that looks like a schema and is wrong somewhere."""

_NAMES = ("a", "b", "c", "*", "**", "~x")


@st.composite
def good_schemas(draw: st.DrawFn, depth: int = 2, refs: tuple[str, ...] = ()) -> Schema:
    """A schema of what strict mode can say."""
    flat = ["string", "integer", "boolean", "nullable", "enum", "const"]
    kind = draw(st.sampled_from([*flat, *(["object", "array", "anyOf", "oneOf"] if depth else []), *refs]))
    match kind:
        case "nullable":
            return {"type": [draw(st.sampled_from(["string", "integer"])), "null"]}
        case "enum":
            return {"type": "string", "enum": ["a", "b"]}
        case "const":
            return {"const": draw(st.sampled_from(["x", 1, True]))}
        case "object":
            return draw(object_schemas(depth - 1, refs))
        case "array":
            return {"type": "array", "items": draw(good_schemas(depth - 1, refs))}
        case "anyOf":
            branches = st.lists(good_schemas(depth - 1, refs), min_size=1, max_size=3)
            return {"anyOf": draw(branches)}
        case "oneOf":
            tags = draw(st.lists(st.sampled_from(["k", "l", "m"]), unique=True, min_size=2, max_size=3))
            return {"oneOf": [_tagged(draw(object_schemas(depth - 1, refs)), tag) for tag in tags]}
        case _ if kind.startswith("#"):
            return {"$ref": kind}
        case _:
            return {"type": kind}


def _tagged(schema: Schema, tag: str) -> Schema:
    properties = {"kind": {"type": "string", "const": tag}, **schema["properties"]}
    return {**schema, "properties": properties, "required": ["kind", *schema["required"]]}


@st.composite
def object_schemas(draw: st.DrawFn, depth: int = 2, refs: tuple[str, ...] = ()) -> Schema:
    """A closed object schema; a property that may be recursive is optional, so that there are finite instances."""
    names = draw(st.lists(st.sampled_from(_NAMES), unique=True, min_size=1, max_size=4))
    properties = {name: draw(good_schemas(depth, refs)) for name in names}
    required = [name for name in names if draw(st.booleans()) and not (refs and "$ref" in json.dumps(properties[name]))]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


@st.composite
def tool_schemas(draw: st.DrawFn) -> Schema:
    """An input schema, with or without definitions that may be recursive."""
    refs = draw(st.sampled_from([(), ("#/$defs/A",), ("#/$defs/A", "#/$defs/B")]))
    schema = draw(object_schemas(2, refs))
    if refs:
        schema["$defs"] = {ref[-1]: draw(object_schemas(1, refs)) for ref in refs}
    return schema

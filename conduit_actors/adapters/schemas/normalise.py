"""Non-strict schemas that a provider accepts: repaired where the meaning is clear, refused where it is not.

"Not strict" is not "anything goes": one bad definition makes a provider refuse the whole request. What each provider
refuses, and how sure that is, stands in docs/providers.md. All functions here end on any JSON value, and never
change it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from conduit_actors.adapters.schemas.gemini import finish_json, finish_openapi
from conduit_actors.adapters.schemas.renames import ANTHROPIC_KEY, GEMINI_KEY, Renames
from conduit_actors.adapters.schemas.roots import root_object
from conduit_actors.adapters.schemas.walker import Rules, Walker
from conduit_actors.adapters.schemas.words import readable
from conduit_actors.errors import UnsupportedSchema

Dialect: TypeAlias = Literal["json", "openapi"]


@dataclass(frozen=True, slots=True)
class Normalised:
    """A schema that a provider accepts.

    Attributes:
        changes: what was changed, in words; at most 100.
        renames: (new key, original key) of property keys that were renamed; see `renames.restore`.
        note: a rule that the schema can no longer say, for the tool's description; "" if there is none.
    """

    schema: dict[str, Any]
    changes: tuple[str, ...] = ()
    renames: Renames = ()
    note: str = ""


OPENAI = Rules()
ANTHROPIC = Rules(keys=ANTHROPIC_KEY, keep_conditions=True)
BEDROCK = Rules(keys=ANTHROPIC_KEY)
GEMINI_JSON = Rules(inline=True, finish=finish_json)
GEMINI_OPENAPI = Rules(inline=True, finish=finish_openapi, keys=GEMINI_KEY, anything={"type": "STRING"})


def for_openai(schema: object) -> Normalised:
    """For OpenAI with ``strict: false``: an object root without unions, ``properties`` and ``items`` everywhere.

    Raises:
        UnsupportedSchema: the root can be no object.
    """
    return _normalised(schema, OPENAI)


def for_anthropic(schema: object) -> Normalised:
    """For Anthropic: an object root without unions, property keys ``^[a-zA-Z0-9_.-]{1,64}$``.

    Raises:
        UnsupportedSchema: the root can be no object.
    """
    return _normalised(schema, ANTHROPIC)


def for_bedrock(schema: object) -> Normalised:
    """For Bedrock Converse: what its Anthropic models take, the strictest of all.

    Raises:
        UnsupportedSchema: the root can be no object.
    """
    return _normalised(schema, BEDROCK)


def for_gemini(schema: object, dialect: Dialect = "json") -> Normalised:
    """For Gemini: ``parametersJsonSchema`` ("json") or the OpenAPI subset of ``parameters`` ("openapi").

    References are put in place, recursion is cut after three rounds, types are single, ``const`` becomes ``enum``,
    ``oneOf`` becomes ``anyOf``, other keywords are left out.

    Raises:
        UnsupportedSchema: the root can be no object.
    """
    made = _normalised(schema, GEMINI_JSON if dialect == "json" else GEMINI_OPENAPI)
    if dialect == "openapi" and made.schema["type"] == "STRING":
        # No parameters at all; the caller leaves the field out.
        return Normalised({"type": "OBJECT"}, made.changes, made.renames, made.note)
    return made


def _normalised(schema: object, rules: Rules) -> Normalised:
    if schema is None or isinstance(schema, bool):
        schema = {}
    if not isinstance(schema, Mapping):
        raise UnsupportedSchema("not an object schema")
    given = readable(cast("Mapping[str, Any]", schema))
    walker = Walker(given, rules)
    root, note = root_object(given, walker.changed, keep_conditions=rules.keep_conditions)
    made = walker.walk(root)
    return Normalised(made, walker.changes, walker.renames, note)


__all__ = ["Dialect", "Normalised", "for_anthropic", "for_bedrock", "for_gemini", "for_openai"]

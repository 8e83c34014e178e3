"""A tool's output schema for Responses' ``output_schema`` and Gemini's ``responseJsonSchema``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from conduit_actors.adapters.schemas.normalise import GEMINI_JSON, OPENAI, Normalised
from conduit_actors.adapters.schemas.walker import Rules, Walker
from conduit_actors.adapters.schemas.words import readable
from conduit_actors.errors import UnsupportedSchema


def for_responses(output_schema: object) -> Normalised:
    """For ``output_schema`` of a function tool of the Responses API: it describes the JSON of a string output.

    Raises:
        UnsupportedSchema: it is no schema.
    """
    return _repaired(output_schema, OPENAI)


def for_gemini_response(output_schema: object) -> Normalised:
    """For ``responseJsonSchema`` of a function declaration, in the subset that Gemini documents for it.

    Raises:
        UnsupportedSchema: it is no schema.
    """
    return _repaired(output_schema, GEMINI_JSON)


def _repaired(schema: object, rules: Rules) -> Normalised:
    # An output is not an argument object: the root may be a union, or of any type, and its keys are the server's own.
    if not isinstance(schema, Mapping):
        raise UnsupportedSchema("not an object schema")
    root = readable(cast("Mapping[str, Any]", schema))
    walker = Walker(root, rules)
    return Normalised(walker.walk(root), walker.changes)

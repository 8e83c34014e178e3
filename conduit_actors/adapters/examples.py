"""Anthropic's ``input_examples``: a host's examples of a tool's arguments, as the tool's own definition takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from conduit_actors.adapters.schemas.renames import Renames, restore
from conduit_actors.arguments import ArgumentValidator

InputExamples: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]
"""Exposed name -> examples, with the server's own property keys."""


def fitting(
    examples: Sequence[Mapping[str, Any]], schema: Mapping[str, Any], renames: Renames
) -> tuple[list[dict[str, Any]], list[str]]:
    """The examples with the keys of the definition, and what was left out: the API refuses one that does not fit."""
    forward = [(old, new) for new, old in renames]
    validator = ArgumentValidator(schema)
    kept: list[dict[str, Any]] = []
    left_out: list[str] = []
    for index, example in enumerate(examples):
        renamed = restore(example, forward)
        fault = validator.fault(renamed)
        if fault is None:
            kept.append(renamed)
        else:
            left_out.append(f"input example {index} was left out: {fault}")
    return kept, left_out

"""What the provider modules share when they read a model's calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from conduit_actors.adapters.schemas.nulls import strip_nulls
from conduit_actors.adapters.schemas.pointers import resolve, types_of
from conduit_actors.adapters.schemas.renames import Renames, restore
from conduit_actors.arguments import parse_arguments
from conduit_actors.errors import Cancelled, ConduitError, ConfigurationError, Denied, UnknownTool
from conduit_actors.results import ToolCall
from conduit_actors.toolset import ExposedTool, ToolSet


@dataclass(frozen=True, slots=True)
class Rejected:
    """A call that is answered with an error and sent to nobody."""

    call_id: str
    name: str
    error: ConduitError
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


Parsed: TypeAlias = ToolCall | Rejected


def as_mapping(response: object) -> Mapping[str, Any]:
    """A provider's response as a mapping, whether it came as JSON or as an object of the provider's SDK.

    Raises:
        ConfigurationError: it is neither.
    """
    if isinstance(response, Mapping):
        return cast("Mapping[str, Any]", response)
    dump = getattr(response, "model_dump", None)
    if callable(dump):
        dumped: Any = dump(mode="json", by_alias=True, exclude_none=True)
        if isinstance(dumped, Mapping):
            return cast("Mapping[str, Any]", dumped)
    raise ConfigurationError(
        f"expected the provider's response as a dict or as its SDK's object, not {type(response).__name__}"
    )


def mappings(value: object) -> list[Mapping[str, Any]]:
    """The objects of a list; of anything else, none."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        return []
    return [
        cast("Mapping[str, Any]", item) if isinstance(item, Mapping) else as_mapping(item)
        for item in cast("Sequence[Any]", value)
        if isinstance(item, Mapping) or hasattr(item, "model_dump")
    ]


def read_call(
    toolset: ToolSet,
    *,
    call_id: str,
    name: object,
    arguments: object,
    extra: Mapping[str, Any] | None = None,
    not_run: str | None = None,
    null_paths: Mapping[str, Sequence[Sequence[str]]] | None = None,
    renames: Renames = (),
    whole_numbers: bool = False,
) -> Parsed:
    """One call of a model: looked up in the tool set, its arguments decoded, or rejected with the reason.

    Args:
        not_run: why nothing of this turn may run, e.g. because it was cut off.
        null_paths: where a null stands for "left out".
        renames: property keys that were changed for the provider.
        whole_numbers: turn 3.0 into 3 where the schema wants an integer.
    """
    text = name if isinstance(name, str) else ""
    more = dict(extra or {})
    if not_run is not None:
        return Rejected(call_id, text, Cancelled(f"the call was not run: {not_run}"), more)
    tool = toolset.get(text)
    if tool is None and (denied := toolset.denied(text)) is not None:
        reason = f"the call of {text} is not allowed: {denied.reason}"
        return Rejected(call_id, text, Denied(reason, server_id=denied.server_id, tool=denied.tool), more)
    if tool is None:
        return Rejected(call_id, text, UnknownTool(f"there is no tool named {text[:200]!r}"), more)
    try:
        decoded = parse_arguments(arguments)
    except ConduitError as error:
        return Rejected(call_id, text, error, more)
    if renames:
        decoded = restore(decoded, renames)
    paths = (null_paths or {}).get(text)
    if paths:
        decoded = strip_nulls(decoded, paths, tool.input_schema)
    if whole_numbers:
        decoded = cast("dict[str, Any]", _whole(tool.input_schema, tool.input_schema, decoded, 0))
    return ToolCall(call_id, text, decoded, tool.server_id, tool.tool, more)


def once_each(calls: Sequence[Parsed]) -> list[Parsed]:
    """The calls without later ones of the same id: a provider wants one answer for each."""
    seen: set[str] = set()
    kept: list[Parsed] = []
    for call in calls:
        if call.call_id and call.call_id in seen:
            continue
        seen.add(call.call_id)
        kept.append(call)
    return kept


def split(parsed: Sequence[Parsed]) -> tuple[list[ToolCall], list[Rejected]]:
    """Calls to run and calls to refuse."""
    calls = [one for one in parsed if isinstance(one, ToolCall)]
    return calls, [one for one in parsed if isinstance(one, Rejected)]


def _whole(root: Mapping[str, Any], schema: Any, value: Any, depth: int) -> Any:
    """Numbers as the schema means them: some providers' JSON has only floats."""
    resolved = resolve(root, schema)
    if not isinstance(resolved, Mapping) or depth > 50:
        return value
    node = cast("Mapping[str, Any]", resolved)
    if isinstance(value, float) and value.is_integer():
        names = types_of(node)
        for keyword in ("anyOf", "oneOf"):
            for branch in mappings(node.get(keyword)):
                found = resolve(root, branch)
                names = (*names, *(types_of(cast("Mapping[str, Any]", found)) if isinstance(found, Mapping) else ()))
        return int(value) if "integer" in names else value
    if isinstance(value, dict) and isinstance(node.get("properties"), Mapping):
        known = cast("Mapping[str, Any]", node["properties"])
        return {
            name: _whole(root, known[name], item, depth + 1) if name in known else item
            for name, item in cast("dict[str, Any]", value).items()
        }
    if isinstance(value, list) and isinstance(node.get("items"), Mapping):
        return [_whole(root, node["items"], item, depth + 1) for item in cast("list[Any]", value)]
    return cast("Any", value)


def tool_of(toolset: ToolSet, name: object) -> ExposedTool | None:
    """The tool with an exposed name, whatever the name is."""
    return toolset.get(name) if isinstance(name, str) else None

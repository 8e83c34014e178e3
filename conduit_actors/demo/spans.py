"""Draws finished spans as a tree."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext
from rich.console import Console
from rich.markup import escape
from rich.tree import Tree

_SHOWN = ("error.type", "mcp.protocol.version", "network.transport", "conduit.policy.action", "conduit.outcome")


def draw_trace(console: Console, spans: Sequence[ReadableSpan]) -> bool:
    """Print the trace of the last tool call. False: there was none, or it was not one tree."""
    roots = [span for span in spans if span.parent is None and span.name.startswith("execute_tool ")]
    if not roots:
        return False
    root = roots[-1]
    trace_id = _id(root).trace_id
    family = [span for span in spans if _id(span).trace_id == trace_id]
    tree = Tree(_label(root))
    drawn = 1 + _add_children(tree, root, family)
    console.print(tree)
    return drawn == len(family) and drawn > 1


def _add_children(tree: Tree, parent: ReadableSpan, family: Sequence[ReadableSpan]) -> int:
    children = [span for span in family if span.parent is not None and span.parent.span_id == _id(parent).span_id]
    drawn = 0
    for child in sorted(children, key=lambda span: span.start_time or 0):
        drawn += 1 + _add_children(tree.add(_label(child)), child, family)
    return drawn


def _id(span: ReadableSpan) -> SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


def _label(span: ReadableSpan) -> str:
    milliseconds = ((span.end_time or 0) - (span.start_time or 0)) / 1e6
    attributes = span.attributes or {}
    shown = ", ".join(f"{key}={attributes[key]}" for key in _SHOWN if key in attributes)
    return escape(f"{span.name}  {span.kind.name.lower()}  {milliseconds:.1f} ms  {shown}".rstrip())

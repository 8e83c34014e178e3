"""One recorded model turn per provider: the same five calls, as each provider's API sends them."""

from __future__ import annotations

import json
from typing import Any, Literal

Outcome = Literal["ok", "denied", "approved", "unknown_tool", "timeout"]

CALLS: list[tuple[str, str, dict[str, Any], Outcome]] = [
    ("call_1", "library__find_book", {"word": "armstrong"}, "ok"),
    ("call_2", "library__burn_book", {"title": "Communicating Sequential Processes"}, "denied"),
    ("call_3", "workshop__order_part", {"part": "gear", "count": 2}, "approved"),
    ("call_4", "library__translate_book", {"language": "Erlang"}, "unknown_tool"),
    ("call_5", "library__count_pages", {"seconds": 30}, "timeout"),
]


def anthropic() -> dict[str, Any]:
    """An Anthropic message that stopped to use tools."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": "I will look around."}]
    blocks += [{"type": "tool_use", "id": call, "name": name, "input": args} for call, name, args, _ in CALLS]
    return {"type": "message", "role": "assistant", "stop_reason": "tool_use", "content": blocks}


def openai_chat() -> dict[str, Any]:
    """An OpenAI chat completion with tool calls."""
    calls = [
        {"id": call, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for call, name, args, _ in CALLS
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    return {"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}


def openai_responses() -> dict[str, Any]:
    """An OpenAI response with function calls."""
    output: list[dict[str, Any]] = [{"type": "reasoning", "id": "rs_1", "summary": []}]
    output += [
        {"type": "function_call", "id": f"fc_{call}", "call_id": call, "name": name, "arguments": json.dumps(args)}
        for call, name, args, _ in CALLS
    ]
    return {"object": "response", "status": "completed", "output": output}


def gemini() -> dict[str, Any]:
    """A Gemini response with function calls."""
    parts = [{"functionCall": {"id": call, "name": name, "args": args}} for call, name, args, _ in CALLS]
    return {"candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": parts}}]}

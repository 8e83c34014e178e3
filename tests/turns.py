"""A model's turn as each provider sends it, and answers read back, checked against the providers' own types."""

from __future__ import annotations

import json
from typing import Any

from provider_types import check

APIS: list[tuple[Any, Any]] = [
    ("anthropic", None),
    ("openai", "chat"),
    ("openai", "responses"),
    ("gemini", None),
    ("bedrock", None),
]
Call = tuple[str, str, Any]


def turn(provider: str, api: str | None, calls: list[Call], **more: Any) -> dict[str, Any]:
    """A model's turn as the provider sends it. Arguments that are text are put in as they are."""
    if provider == "anthropic":
        blocks = [{"type": "tool_use", "id": i, "name": n, "input": a} for i, n, a in calls]
        return {"role": "assistant", "stop_reason": "tool_use", "content": blocks, **more}
    if provider == "gemini":
        parts = [{"functionCall": {"id": i, "name": n, "args": a}} for i, n, a in calls]
        return {"candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": parts}, **more}]}
    if provider == "bedrock":
        uses = [{"toolUse": {"toolUseId": i, "name": n, "input": a}} for i, n, a in calls]
        return {"stopReason": "tool_use", "output": {"message": {"role": "assistant", "content": uses}}, **more}
    texts = [(i, n, a if isinstance(a, str) else json.dumps(a)) for i, n, a in calls]
    if api == "chat":
        made = [{"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in texts]
        return {"choices": [{"finish_reason": "tool_calls", "message": {"tool_calls": made}, **more}]}
    items = [{"type": "function_call", "call_id": i, "name": n, "arguments": a} for i, n, a in texts]
    return {"status": "completed", "output": items, **more}


def read(answer: dict[str, Any]) -> tuple[str | None, str, bool]:
    """(id, text, whether it is marked as an error) of an answer in any shape; checked against the SDK's type."""
    if answer.get("type") == "tool_result":
        check("anthropic.result", answer)
        text = "".join(block.get("text", "") for block in answer["content"])
        return answer["tool_use_id"], text, answer.get("is_error", False)
    if answer.get("role") == "tool":
        check("chat.result", answer)
        return answer["tool_call_id"], answer["content"], answer["content"].startswith("Error: ")
    if answer.get("type") == "function_call_output":
        check("responses.result", answer)
        text = answer["output"] if isinstance(answer["output"], str) else json.dumps(answer["output"])
        return answer["call_id"], text, text.startswith("Error: ")
    if "toolResult" in answer:
        result = answer["toolResult"]
        return result["toolUseId"], str(result["content"]), result["status"] == "error"
    check("gemini.result", answer)
    response = answer["functionResponse"]
    body = response["response"]
    return response.get("id"), str(body.get("output", body.get("error"))), "error" in body

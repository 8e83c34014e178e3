"""Checks what the adapters write against the request types of the providers' own SDKs. Shape only, offline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, TypeAdapter


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    from anthropic.types import ToolParam, ToolResultBlockParam
    from google.genai.types import FunctionDeclaration, Part
    from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionToolMessageParam
    from openai.types.responses import FunctionToolParam, NamespaceToolParam
    from openai.types.responses.response_input_param import FunctionCallOutput

    types: dict[str, Any] = {
        "anthropic.tool": ToolParam,
        "anthropic.result": ToolResultBlockParam,
        "chat.tool": ChatCompletionFunctionToolParam,
        "chat.result": ChatCompletionToolMessageParam,
        "responses.tool": FunctionToolParam,
        "responses.namespace": NamespaceToolParam,
        "responses.result": FunctionCallOutput,
        "gemini.tool": FunctionDeclaration,
        "gemini.result": Part,
    }
    return TypeAdapter(types[kind])


def check(kind: str, value: Any) -> None:
    """Raise `pydantic.ValidationError` if a value does not fit. Lazily validated lists are read to their end."""
    _read(_adapter(kind).validate_python(value))


def _read(value: Any) -> None:
    if isinstance(value, Mapping):
        for item in value.values():
            _read(item)
    elif isinstance(value, Iterable) and not isinstance(value, (str, bytes, BaseModel)):
        for item in value:
            _read(item)

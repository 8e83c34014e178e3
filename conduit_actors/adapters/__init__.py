"""Tools for LLM providers: their definitions, their calls, their results.

`tools` and `execute_tool_calls` do the work; `anthropic`, `openai`, `gemini` and `bedrock` are the pure modules below.
"""

from conduit_actors.adapters import anthropic, bedrock, gemini, openai
from conduit_actors.adapters.definitions import Definitions, Fallback
from conduit_actors.adapters.facade import Listing, ToolCallResults, execute_tool_calls, tools

__all__ = [
    "Definitions",
    "Fallback",
    "Listing",
    "ToolCallResults",
    "anthropic",
    "bedrock",
    "execute_tool_calls",
    "gemini",
    "openai",
    "tools",
]

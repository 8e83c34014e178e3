"""Tools for LLM providers: their definitions, their calls, their results.

`tools` and `execute_tool_calls` do the work; `anthropic`, `openai`, `gemini` and `bedrock` are the pure modules below.
"""

from conduit_actors.adapters import anthropic, bedrock, gemini, openai
from conduit_actors.adapters.definitions import Definitions, Fallback
from conduit_actors.adapters.facade import Listing, ToolCallResults, execute_tool_calls, tools
from conduit_actors.adapters.profiles import Profile
from conduit_actors.adapters.schemas.anthropic_strict import Budgets

__all__ = [
    "Budgets",
    "Definitions",
    "Fallback",
    "Listing",
    "Profile",
    "ToolCallResults",
    "anthropic",
    "bedrock",
    "execute_tool_calls",
    "gemini",
    "openai",
    "tools",
]

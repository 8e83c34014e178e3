"""Each recipe of docs/governance.md, run as it stands there."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

import conduit_actors
import kitchen

pytestmark = pytest.mark.anyio

GUIDE = Path(__file__).parents[2] / "docs" / "governance.md"
RECIPES = re.findall(r"^## (.+?)$.*?^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


def turn(*calls: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    content = [{"type": "tool_use", "id": id_, "name": name, "input": given} for id_, name, given in calls]
    return {"stop_reason": "tool_use", "content": content}


def test_the_guide_has_recipes() -> None:
    assert len(RECIPES) >= 9


@pytest.mark.parametrize(("title", "recipe"), RECIPES, ids=[title for title, _ in RECIPES])
async def test_recipe(title: str, recipe: str, tmp_path: Path) -> None:
    names: dict[str, Any] = {name: getattr(conduit_actors, name) for name in conduit_actors.__all__}
    names |= {"server": kitchen.build(), "folder": tmp_path, "turn": turn}
    exec(f"async def recipe():\n{textwrap.indent(recipe, '    ')}", names)
    await names["recipe"]()

"""The page on agents: its tables are the code's."""

from __future__ import annotations

import re
from pathlib import Path

from truezero.runner.agents import AGENTS

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_agents_page_lists_every_agent() -> None:
    text = (DOCS / "guides" / "agents.md").read_text()
    table = text.split("<!-- agents -->")[1].split("<!-- /agents -->")[0]
    rows = [line.split(" | ") for line in table.strip().splitlines()[2:]]
    listed = [
        (name.removeprefix("| "), set(re.findall(r"`([\w-]+)`", by)), re.findall(r"`(\w+)`", keys))
        for name, by, keys, *_ in rows
    ]
    assert listed == [(agent.name, set(agent.commands), list(agent.keys)) for agent in AGENTS]


def test_the_agents_page_names_every_variable() -> None:
    from truezero.runner.equipment import _BASE_URLS

    text = (DOCS / "guides" / "agents.md").read_text()
    assert all(f"`{variable}`" in text for variable in _BASE_URLS)

"""The demo's agent, against the demo's provider and no proxy: it answers or gives up quietly."""

from __future__ import annotations

import httpx
import pytest

from truezero.runner.demo import SCENES, agent
from truezero.runner.demo_provider import DemoProvider

SOLVED = {"solved": "391", "rate-limited": "391", "honest-zero": "I could not work this out."}


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_an_agent_answers_or_returns_nothing(scene: object) -> None:
    (one,) = (each for each in SCENES if each is scene)
    with DemoProvider() as provider, httpx.Client() as http:
        base_url = provider.url + ("/v1" if one.dialect == "openai" else "")
        answer = agent(http, one, base_url)
    assert SOLVED.get(one.name, "") in answer
    assert bool(answer) is (one.name in SOLVED)

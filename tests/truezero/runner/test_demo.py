"""The demo's agent, against the demo's provider and no proxy: it answers or gives up quietly."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from truezero.runner import demo
from truezero.runner.demo import SCENES, DemoProvider, agent

SOLVED = {"solved": "391", "rate-limited": "391", "honest-zero": "I could not work this out."}


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_an_agent_answers_or_returns_nothing(scene: object) -> None:
    (one,) = (each for each in SCENES if each is scene)
    with DemoProvider() as provider, httpx.Client() as http:
        base_url = provider.url + ("/v1" if one.dialect == "openai" else "")
        answer = agent(http, one, base_url)
    assert SOLVED.get(one.name, "") in answer
    assert bool(answer) is (one.name in SOLVED)


def test_a_verdict_is_asked_again_until_its_calls_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demo, "_PATIENCE_S", 0.0)
    answers = ["undecided", "undecided", "api_error", "healthy"]
    client = SimpleNamespace(verdict=lambda _: SimpleNamespace(health=answers.pop(0)))
    assert demo._decided(cast(Any, client), "r1").health == "api_error"
    monkeypatch.setattr(demo, "_WRITTEN_S", 0.0)
    answers[:] = ["undecided"]
    assert demo._decided(cast(Any, client), "r1").health == "undecided", "not for ever"

"""`truezero card`: what is shown while a large batch is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner, Result

from tests.proxy.api.test_routes import Service, serving
from truezero.cli import app
from truezero.cli import card as commands


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a batch of two rollouts."""
    with serving(tmp_path_factory.mktemp("card")) as running:
        for name in ("one", "two"):
            running.http.post("/rollouts", json={"id": name, "batch": "b", "task": name})
            seen = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0.5}}
            running.http.post(f"/rollouts/{name}/outcome", json=seen).raise_for_status()
        yield running


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is shown as progress, whatever the time."""
    texts: list[str] = []

    @contextmanager
    def progress(doing: str) -> Iterator[Callable[[str], None]]:
        texts.append(doing)
        yield texts.append

    monkeypatch.setattr(commands, "progress", progress)
    return texts


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, ["card", *words])


def test_how_much_of_a_batch_was_read_is_shown_while_a_card_is_made(
    service: Service, shown: list[str]
) -> None:
    done = invoke("b", "--url", str(service.http.base_url))
    assert done.exit_code == 0, done.output
    assert shown == ["the service reads b", "2 of 2 rollouts of b read"]


def test_of_a_batch_that_is_none_nothing_is_read(service: Service, shown: list[str]) -> None:
    done = invoke("none", "--url", str(service.http.base_url))
    assert (done.exit_code, shown) == (1, ["the service reads none"])
    assert "batch 'none' does not exist" in done.output

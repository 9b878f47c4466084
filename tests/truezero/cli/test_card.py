"""`truezero card`: what is shown while a large batch is judged or verified."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.proxy.api.test_routes import Service, serving
from truezero.cli import app
from truezero.cli import card as commands
from truezero.runner import card as cards


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


def test_how_much_of_a_batch_was_read_is_shown_while_a_card_or_a_disclosure_is_made(
    service: Service, shown: list[str]
) -> None:
    for words in (("b",), ("disclose", "b", "--seed", "word")):
        done = invoke(*words, "--url", str(service.http.base_url))
        assert done.exit_code == 0, done.output
    assert shown == ["the service reads b", "2 of 2 rollouts of b read"] * 2


def test_of_a_batch_that_is_none_nothing_is_read(service: Service, shown: list[str]) -> None:
    done = invoke("none", "--url", str(service.http.base_url))
    assert (done.exit_code, shown) == (1, ["the service reads none"])
    assert "batch 'none' does not exist" in done.output


def test_how_much_of_an_export_was_read_is_shown_while_a_card_is_verified(
    service: Service, shown: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "_PROGRESS_EVERY", 3)
    url = str(service.http.base_url)
    card, export = tmp_path / "card.json", tmp_path / "b.jsonl"
    assert invoke("b", "--json", str(card), "--url", url).exit_code == 0
    written = CliRunner().invoke(
        app, ["export", "--batch", "b", "--out", str(export), "--url", url]
    )
    assert written.exit_code == 0, written.output
    shown.clear()
    done = invoke("verify", str(card), "--export", str(export))
    assert done.stdout == "export: holds\n"
    assert shown == ["reading", f"3 records of {export} read"], "of two rollouts and two outcomes"

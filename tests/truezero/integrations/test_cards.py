"""The measurement card at the end of a run: bounded, and never the run's failure."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.truezero import driving
from truezero import Client
from truezero.integrations import cards
from truezero.integrations.cards import NoCard, fetch_card, write_card


@pytest.fixture
def batch(url: str, request: pytest.FixtureRequest) -> str:
    """One measured rollout with a score."""
    name = f"card-{request.node.name[:40]}"
    with Client(url) as client:
        registered = client.register(batch=name, task="t")
        driving.call(registered.base_urls["openai"], "sk-good")
        client.ended(
            registered.id, status="success", termination_reason="agent_stop", rewards={"r": 0.5}
        )
    return name


def test_a_card_is_written_as_the_service_makes_it(url: str, batch: str, tmp_path: Path) -> None:
    file = tmp_path / "card.json"
    file.write_text("an older one")
    assert write_card(file, batch, "pytest", url) is None
    harness = f"pytest {pytest.__version__}"
    with Client(url) as client:
        assert file.read_bytes() == client.card(batch, harness=harness)
    assert json.loads(file.read_bytes())["stated"]["harness"] == harness
    assert list(tmp_path.iterdir()) == [file]


def test_a_harness_that_is_not_installed_is_named_without_a_version(url: str, batch: str) -> None:
    assert json.loads(fetch_card(batch, "no-such-harness", url))["stated"]["harness"] == (
        "no-such-harness"
    )


def test_a_slow_card_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service is stopped: its socket accepts, and nobody answers."""
    monkeypatch.setattr(cards, "CARD_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert write_card(tmp_path / "card.json", "b", "pytest", f"http://127.0.0.1:{port}") == (
            "no measurement card was written: the service did not make it within 0.1 s; "
            "`truezero card b` shows it"
        )
    assert not list(tmp_path.iterdir())


def test_why_there_is_no_card_is_one_sentence(url: str, batch: str, tmp_path: Path) -> None:
    with pytest.raises(NoCard, match="cannot reach a truezero service"):
        fetch_card(batch, "pytest", "http://127.0.0.1:9")
    why = write_card(tmp_path / "gone" / "card.json", batch, "pytest", url)
    assert why is not None
    assert why.startswith("no measurement card was written: [Errno 2] No such file")
    assert "\n" not in why

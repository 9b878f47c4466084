"""The measurement card at the end of a run: bounded, and never the run's failure."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
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


def test_a_slow_card_is_not_waited_for(
    url: str, batch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = threading.Event()

    def card(*_: object, **__: object) -> dict[str, bytes]:
        made.wait()
        return {"card": b"{}"}

    monkeypatch.setattr(Client, "card_files", card)
    monkeypatch.setattr(cards, "CARD_S", 0.01)
    try:
        assert write_card(tmp_path / "card.json", batch, "pytest", url) == (
            "no measurement card was written: the service did not make it within 0.01 s; "
            f"`truezero card {batch}` shows it"
        )
    finally:
        made.set()
    assert not list(tmp_path.iterdir())


def test_a_service_is_told_to_stop_making_a_card_that_is_late(
    url: str, batch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised = threading.Event()

    def card(_: Client, _batch: str, progress: Callable[[int, int], object], **__: object) -> None:
        try:
            while True:
                progress(1, 2)
        except TimeoutError:
            raised.set()
            raise

    monkeypatch.setattr(Client, "card_files", card)
    with pytest.raises(NoCard, match=r"the service did not make it within 0\.01 s"):
        fetch_card(batch, "pytest", url, within_s=0.01)
    assert raised.wait(300)


def test_a_large_batch_is_not_judged_anew_at_the_end_of_a_run(
    url: str, batch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "CARD_ROLLOUTS", 0)
    monkeypatch.setattr(Client, "card_files", None)
    assert write_card(tmp_path / "card.json", batch, "pytest", url) == (
        "no measurement card was written: one of 1 rollout takes minutes; "
        f"`truezero card {batch}` shows it"
    )


def test_why_there_is_no_card_is_one_sentence(url: str, batch: str, tmp_path: Path) -> None:
    with pytest.raises(NoCard, match="cannot reach a truezero service"):
        fetch_card(batch, "pytest", "http://127.0.0.1:9")
    why = write_card(tmp_path / "gone" / "card.json", batch, "pytest", url)
    assert why is not None
    assert why.startswith("no measurement card was written: [Errno 2] No such file")
    assert "\n" not in why

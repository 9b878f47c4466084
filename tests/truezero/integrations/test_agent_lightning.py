"""Agent Lightning's rollouts: what its hooks note of each, and which rows its adapter is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

import truezero
from tests.fakes.provider import closed_port
from tests.truezero import driving
from tests.truezero.audit.test_mask import call as answered
from tests.truezero.audit.test_mask import event, events, failure, refused, verdicts
from truezero.integrations.agent_lightning import (
    VerdictHooks,
    base_url,
    measured_adapter,
    measured_rollouts,
)

Record = dict[str, Any]


class Kept(dict[str, Any]):
    """A record as its package's models have it: fields, and a dump of them."""

    __getattr__ = dict.__getitem__

    def model_dump(self, **_how: str) -> Record:
        return dict(self)


class Store:
    """What hooks add to a rollout's events."""

    def __init__(self) -> None:
        self.added: list[tuple[str, str, str, Record]] = []

    def add_event(self, rollout: str, attempt: str, event_type: str, data: Record) -> None:
        self.added.append((rollout, attempt, event_type, data))

    @property
    def note(self) -> Record:
        (note,) = [data for _, _, event_type, data in self.added if event_type == "truezero"]
        return note


class Hooks(VerdictHooks):
    batch = "grpo-7"


def rollout(name: str, *, error: str | None = None, **task: str) -> SimpleNamespace:
    status = SimpleNamespace(last_attempt_id="0", error_message=error)
    return SimpleNamespace(rollout_id=name, status=status, input={"question": "?", **task})


def completed(name: str, reward: float | None, *found: bool | None) -> Kept:
    """A `CompletedRollout` with the hooks' words on it, oldest first."""
    notes = [{"event_type": "truezero", "data": {"measured": each}} for each in found]
    return Kept(rollout_id=name, triplets=[{}], final_reward=reward, events=notes)


# --- the rows of the adapter -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reward", "found", "stays"),
    [
        (1.0, [True], True),
        (0.0, [True], True),  # a real zero
        (0.0, [False], False),
        (None, [False], False),
        (None, [True], True),  # its agent failed by itself: what that is worth, the trainer says
        (0.0, [None], True),
        (None, [None], False),
        (0.5, [], True),
        (None, [], False),
        (0.0, [True, False], False),  # the last word
    ],
)
def test_a_rollout_without_a_measurement_is_left_out(
    reward: float | None, found: Sequence[bool | None], stays: bool
) -> None:
    row = completed("r", reward, *found)
    assert measured_rollouts([row]) == ([row] if stays else [])


def test_rollouts_are_left_out_by_what_was_recorded_where_no_hook_noted_it() -> None:
    calls = {"solved": [answered(1)], "struck": [failure(2)] * 6}
    wire = verdicts(calls, failed=["struck"])
    rows = [
        Kept(rollout_id=name, triplets=[{}], final_reward=0.0, events=kept)
        for name, kept in (("solved", events("solved", 1)), ("struck", [refused("struck", 2)]))
    ]
    assert measured_rollouts(rows, wire) == rows[:1]
    assert measured_rollouts([dict(each) for each in rows], wire) == [dict(rows[0])]


class Adapter:
    """As theirs: it fills the rewards that are missing."""

    def __init__(self, *, reward_fillna_value: float) -> None:
        self._fill = reward_fillna_value

    def get_train_data_batch(self, rollouts: Sequence[Any], *, global_steps: int = 0) -> Any:
        filled = [self._fill if x.final_reward is None else x.final_reward for x in rollouts]
        return filled, {"step": global_steps}

    def get_test_metrics(self, rollouts: Sequence[Any], *, global_steps: int = 0) -> Any:
        return self.get_train_data_batch(rollouts, global_steps=global_steps)[0]


def test_an_adapter_fills_no_reward_of_a_rollout_without_a_measurement() -> None:
    rows = [completed("a", 1.0, True), completed("b", None, False), completed("c", None)]
    assert Adapter(reward_fillna_value=0.0).get_test_metrics(rows) == [1.0, 0.0, 0.0]
    adapter = measured_adapter(Adapter)(reward_fillna_value=0.0)
    assert adapter.get_train_data_batch(rows, global_steps=3) == ([1.0], {"step": 3})
    assert adapter.get_test_metrics(rows) == [1.0]


# --- the hooks, against a running service ------------------------------------------------------


@pytest.fixture
def hooks(url: str, monkeypatch: pytest.MonkeyPatch) -> Hooks:
    monkeypatch.setenv("TRUEZERO_URL", url)
    hooks = Hooks()
    hooks.on_startup()
    return hooks


def lightning(url: str, name: str) -> str:
    """An agent's base URL, with the provider in the place of the package's server."""
    agents = f"http://agl:8000/proxy/rollout/{name}/attempt/0/mode/train/openai/v1"
    return base_url(agents, service=url, upstream="openai")


def test_an_agents_base_url_names_its_rollout() -> None:
    agents = "http://agl:8000/proxy/rollout/r-1/attempt/0/mode/val/openai/v1"
    through = "http://t:8383/r/r-1/agl/proxy/rollout/r-1/attempt/0/mode/val/openai/v1"
    assert base_url(agents, service="http://t:8383/") == through
    with pytest.raises(ValueError, match="names no rollout"):
        base_url("http://agl:8000/v1", service="http://t:8383")


def test_a_rollout_that_met_a_failing_engine_loses_its_reward(hooks: Hooks, url: str) -> None:
    for _ in range(3):
        driving.call(lightning(url, "agl-struck"), "sk-down")
    store, zero = Store(), [Kept(each) for each in events("agl-struck")]
    hooks.on_succeeded(rollout("agl-struck", data_id="t1"), {"0": zero}, store)
    assert (store.note["measured"], store.note["kind"]) == (False, "provider_error")
    assert store.added[-1][2:] == (
        "reward",
        {"value": None, "source": "truezero", "reason": "truezero_masked"},
    )
    with truezero.Client(url) as client:
        (item,) = [x for x in client.rollouts(batch="grpo-7") if x.id == "agl-struck"]
    assert (item.task, item.reward, item.reported_reward) == ("t1", None, 0.0)


def test_a_measured_rollout_keeps_its_zero(hooks: Hooks, url: str) -> None:
    driving.call(lightning(url, "agl-wrong"))
    with truezero.Client(url) as client:
        (seen,) = client.exchanges("agl-wrong")
    usage = {"prompt_tokens": seen.input_tokens, "completion_tokens": seen.output_tokens}
    response = {"id": "chatcmpl-1", "model": "gpt-5"}
    kept = [event("agl-wrong", 1, usage=usage, response=response, model="gpt-5")]
    store = Store()
    hooks.on_succeeded(
        rollout("agl-wrong"), {"0": [Kept(each) for each in [*kept, *events("agl-wrong")]]}, store
    )
    assert [added[2] for added in store.added] == ["truezero"]
    assert (store.note["measured"], store.note["joined"]) == (True, 1)


def test_a_rollout_that_its_agent_failed_is_told_from_one_that_the_engine_did(
    hooks: Hooks, url: str
) -> None:
    found: Mapping[str, bool | None] = {}
    for name, key, error in (
        ("agl-crash", "sk-good", "subprocess exited with code 1"),
        ("agl-dead", "sk-dead", "subprocess exited with code 1"),
        ("agl-late", "sk-good", "local subprocess timed out"),
    ):
        driving.call(lightning(url, name), key)
        store = Store()
        hooks.on_failed(rollout(name, error=error), store)
        found = {**found, name: store.note["measured"]}
    assert found["agl-dead"] is False
    assert False not in (found["agl-crash"], found["agl-late"])
    with truezero.Client(url) as client:
        statuses = {name: client.result(name).status for name in found}
    assert statuses == {
        "agl-crash": "agent_error", "agl-dead": "agent_error", "agl-late": "task_timeout",
    }  # fmt: skip


def test_a_service_that_is_away_leaves_everything_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUEZERO_URL", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("TRUEZERO_OUTCOME_PATIENCE_S", "0.1")
    hooks, store = Hooks(), Store()
    hooks.on_startup()
    hooks.on_failed(rollout("agl-away"), store)
    assert [added[2] for added in store.added] == ["truezero"]
    assert store.note["measured"] is None

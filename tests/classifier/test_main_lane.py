"""Which calls are to the model under test."""

from __future__ import annotations

from typing import Any

from classifier import judge
from classifier.evidence import MainLane, main_lane_of
from classifier.logical_calls import calls_of, counted
from tests.builders import rollout


def lane(text: str, **said: Any) -> MainLane:
    seen = rollout(text, **said)
    return main_lane_of(calls_of(counted(seen.exchanges)), seen)


def asked(text: str, **said: Any) -> list[str | None]:
    return [call.asked.model for call in lane(text, **said).calls]


def test_the_registered_model_is_found_under_each_of_its_names() -> None:
    for model, text in (
        ("o5", "200@o4*3 401@o5"),
        ("openai/o5", "200@o4*3 401@O5"),
        ("o5", "200@o4*3 401@o5-2026-01-31"),
        ("o5-2026-01-31", "200@o4*3 401@o5"),
        ("claude-opus-4", "200@o4*3 401@eu.anthropic.claude-opus-4-20250514-v1:0"),
        ("qwen3", "200@o4*3 401@qwen3:32b"),
        ("qwen3:32b", "200@o4*3 401@qwen3"),
        ("o5", "200@o4*3 401@house 200@house>o5-2026-01-31"),
    ):
        found = lane(text, model=model)
        assert (found.bound, found.unseen) == (True, False), text
        assert [call.asked.model for call in found.calls] == [
            x.model for x in rollout(text).exchanges if x.model != "o4"
        ], text


def test_equal_names_are_taken_together() -> None:
    assert asked("200@gpt-5 200@openai/gpt-5 200@gpt-5-2025-08-07 200@gpt-5-mini") == [
        "gpt-5",
        "openai/gpt-5",
        "gpt-5-2025-08-07",
    ]


def test_an_exact_size_is_not_taken_for_another() -> None:
    assert asked("200@qwen3:4b*3 503@qwen3:32b", model="qwen3:32b") == ["qwen3:32b"]


def test_a_registered_model_that_no_call_named_binds_nothing() -> None:
    found = lane("200@o4 404+side", model="o5")
    assert (found.bound, found.unseen) == (False, True)
    assert found.calls == lane("200@o4 404+side").calls


def test_without_calls_or_readable_names_nothing_is_known_to_be_unseen() -> None:
    assert lane("", model="o5") == MainLane(())
    seen = rollout("200", model="o5")
    nameless = tuple(call._replace(model=None) for call in calls_of(counted(seen.exchanges)))
    assert main_lane_of(nameless, seen).unseen is False


def test_declared_fallbacks_are_part_of_it() -> None:
    fallbacks = {"model": "a", "fallbacks": ("provider/B", "never")}
    found = lane("200@a 200@b-2026-01-31 200@c", **fallbacks)
    assert ([call.asked.model for call in found.calls], found.bound) == (
        ["a", "b-2026-01-31"],
        True,
    )
    assert lane("200@b", **fallbacks).unseen is False
    assert lane("200@c", **fallbacks).unseen is True


def test_a_registered_upstream_binds_where_any_call_went_there() -> None:
    found = lane("503%openai 200%azure", upstream="openai")
    assert ([call.asked.upstream for call in found.calls], found.bound) == (["openai"], True)
    other = lane("503%openai 200%azure", upstream="groq")
    assert (len(other.calls), other.bound) == (2, False)


def test_model_and_upstream_bind_together() -> None:
    found = lane("200@o4%openai 503@o5%openai 200@o5%azure", model="o5", upstream="openai")
    assert [(call.asked.model, call.asked.upstream) for call in found.calls] == [("o5", "openai")]


def test_what_is_bound_decides_alone() -> None:
    assert judge(rollout("401@a*5 503@b", model="b")).error == (
        "api_error [provider_error, transient]: HTTP 503 on 1 of 1 call to b"
    )
    assert judge(rollout("401@a*5 200@b", model="b")).scoreable == "yes"

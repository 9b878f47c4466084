"""`truezero rerun`: what to run again, for people and for other programs."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from tests.truezero.models.test_batches import REPORTS_EMPTY
from truezero import models
from truezero.cli.rerun import commands, print_reruns, rerun_ids


def reruns(**lists: list[dict[str, Any]]) -> models.Reruns:
    kinds = {
        name: {"count": sum(group["count"] for group in groups), "groups": groups}
        for name, groups in lists.items()
    }
    return models.Reruns.model_validate({**REPORTS_EMPTY, "running": 2, **kinds})


def group(cause: str, count: int, fix: str | None = None, **item: Any) -> dict[str, Any]:
    items = [
        {"task": "a b", "repeat": n, "rollout_id": f"{cause}-{n}", "attempt": 1, "after_s": None}
        | item
        for n in range(count)
    ]
    return {"cause": cause, "fix": fix, "count": count, "items": items}


FOUND = reruns(
    transient=[group("down", 12, after_s=2.5)],
    fix_first=[group("auth:401", 1, "replace the API key", task=None, repeat=None)],
    unmeasured=[group("never_started", 1, rollout_id=None)],
)


def test_what_to_run_again_is_said_by_cause_with_what_to_fix(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_reruns(FOUND, [], most=10)
    said = capsys.readouterr().out
    assert "transient: 12 (run again now)\n  down, 12\n    a b (repeat 0) after 2.5 s\n" in said
    assert "    and 2 more: --ids --only transient\n" in said
    assert "  auth:401, 1: replace the API key\n    auth:401-0\n" in said, "it has no task"
    assert "never_started, 1\n    a b (repeat 0)\n" in said
    assert "2 rollouts still running" in said
    assert "skipped" not in said
    print_reruns(FOUND, ["skipped"], most=10)
    said = capsys.readouterr().out
    assert "skipped: 0" in said
    assert "transient" not in said


def test_nothing_to_run_again_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    print_reruns(reruns(), [], most=10)
    assert "b: nothing to run again" in capsys.readouterr().out


def test_ids_and_commands_are_lines_for_other_programs() -> None:
    everything = ["transient", "fix_first", "unmeasured"]
    assert len(list(rerun_ids(FOUND, everything))) == 13, "what never started has no id"
    assert list(rerun_ids(FOUND, ["fix_first"])) == ["auth:401-0"]


def test_commands_name_what_is_to_be_run_and_what_to_fix_first() -> None:
    (first, *_) = commands(FOUND, ["transient"], ["./agent.sh", "a b"])
    assert first == (
        "truezero run --batch b --task 'a b' --repeat 0 --attempt 1 -- ./agent.sh 'a b'"
    )
    assert list(commands(FOUND, ["fix_first"], ["./agent.sh"])) == [
        "# 'first, for auth:401 (1): replace the API key'",
        "truezero run --batch b -- ./agent.sh",
    ]
    assert list(commands(FOUND, ["undecided"])) == []


def test_commands_without_an_agent_begin_with_the_line_that_sets_it() -> None:
    first, *_, last = commands(FOUND, ["transient"], url="http://s")
    assert first == 'AGENT="${AGENT:?set it to the command of your agent}"'
    assert last.endswith(" --url http://s -- $AGENT")


def test_what_was_skipped_is_run_after_the_breakers_reset() -> None:
    skipped = reruns(skipped=[group("auth:401", 1, "fix the cause", repeat=None)])
    assert list(commands(skipped, ["skipped"], ["agent"], "http://s")) == [
        "# 'first, for auth:401 (1): fix the cause'",
        "truezero breaker reset b --url http://s",
        "truezero run --batch b --task 'a b' --url http://s -- agent",
    ]


def test_a_name_is_never_a_command() -> None:
    evil = reruns(fix_first=[group("x\n$(touch evil)", 1, "f'`id`", task="\n; id #", repeat=None)])
    comment, line = commands(evil, ["fix_first"], ["agent"])
    assert shlex.split(comment) == ["#", r"first, for x\x0a$(touch evil) (1): f'`id`"]
    assert shlex.split(line)[4:6] == ["--task", r"\x0a; id #"]

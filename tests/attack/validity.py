"""Attacks on the score by what measurements are checked for: each check that an agent can trip.

An agent that solves 4 of 10 tries it with each of the others. What it did is found and shown;
under `untrusted` its score stands, even where suspect findings would take a score away.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeAlias

from classifier.verdicts import Level
from tests.attack import engine
from tests.attack.claims import claim
from tests.attack.stage import Rollout, Stage
from tests.fakes import answers, replies
from tests.fakes.answers import Api
from tests.fakes.replies import Finish, Reply

_TRIES, _SOLVED = 10, 4
_STRICT = {"agents": "untrusted", "validity": "suspect"}
_TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
_TASK = f"Repair the parser, which counts empty fields. {'It keeps its count. ' * 60}"
# What engines have beside the API (docs.sglang.io: native APIs; docs.vllm.ai: vllm serve), and what
# ends a stored response.
_STOPS = ("/abort_request", "/v1/abort_request", "/pause_generation", "/pause", "/sleep",
          "/flush_cache", "/update_weights_from_disk", "/v1/responses/resp_1/cancel")  # fmt: skip
_Message = dict[str, str]
_Play: TypeAlias = "Callable[[Stage, Rollout], None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trick:
    """What an agent does at the end of a failing rollout, and what is found of it.

    ``play`` makes its calls. ``check`` and ``level``: None where nothing is to be found.
    ``reported``: what its runner reports beside the zero.
    """

    play: _Play
    check: str | None
    level: str | None
    reported: Mapping[str, object]

    @property
    def name(self) -> str:
        """Also that of the batch in which it is tried."""
        return self.play.__name__


TRICKS: list[Trick] = []


def trick(
    how: str, check: str | None, level: str | None = None, **reported: object
) -> Callable[[_Play], _Play]:
    """Register a trick, and the claim that it lifts no score."""

    def register(play: _Play) -> _Play:
        one = Trick(play=play, check=check, level=level, reported=reported)
        TRICKS.append(one)

        @claim(f"an agent that solves 4 of 10 scores no more than 0.4 {how}", slow=True)
        @wraps(play)
        def attack(stage: Stage) -> None:
            _assert_score_stands(stage, one)

        return play

    return register


def _user(text: str) -> _Message:
    return {"role": "user", "content": text}


def _assistant(text: str) -> _Message:
    return {"role": "assistant", "content": text}


def _chat(
    stage: Stage,
    rollout: Rollout,
    *messages: _Message,
    source: str = "127.0.0.1",
    **more: object,
) -> None:
    """Make one call, which is answered; with the task alone where no message is given."""
    asked = {"model": "gpt-5", "messages": messages or (_user(_TASK),), "tools": [_TOOL]}
    body = json.dumps(asked | more).encode()
    assert stage.chat(rollout, body=body, source=source).status == 200


_ASIDE = "Of the fields, the third is the one that is empty in every record. " * 20
_GO_ON = (_assistant("."), _user("Go on."))


# --- the tricks, by check ------------------------------------------------------------------


@trick("by a limit so low that its last answer is cut", "output_truncated", "suspect")
def low_limit(stage: Stage, rollout: Rollout) -> None:
    _chat(stage, rollout)
    _chat(stage, rollout, max_tokens=64)


@trick("by two limits, of which the engine takes the lower", "output_truncated", "suspect")
def two_limits(stage: Stage, rollout: Rollout) -> None:
    _chat(stage, rollout)
    _chat(stage, rollout, max_tokens=64, max_completion_tokens=4_000)


@trick("by a prompt that leaves its answer no room", "output_truncated", "invalid")
def full_window(stage: Stage, rollout: Rollout) -> None:
    whole = "." * engine.BYTES_PER_TOKEN * (engine.WINDOW - 64)
    _chat(stage, rollout, _user(whole), max_tokens=4_000)


@trick("by a limit that reasoning uses up", "reasoning_ate_budget", "suspect")
def all_reasoning(stage: Stage, rollout: Rollout) -> None:
    _chat(stage, rollout)
    _chat(stage, rollout, reasoning_effort="high", max_completion_tokens=64)


@trick("by having its gateway fall back", "model_substituted", "invalid")
def asked_for_fallback(stage: Stage, rollout: Rollout) -> None:
    _chat(stage, rollout, mock_testing_fallbacks=True)


@trick("by naming other models to its gateway", "model_substituted", "suspect")
def other_models(stage: Stage, rollout: Rollout) -> None:
    _chat(stage, rollout)
    _chat(stage, rollout, models=["gpt-5", "gpt-4.1-nano"])


@trick("by naming other providers to its gateway", "serving_changed", "info")
def other_providers(stage: Stage, rollout: Rollout) -> None:
    for name in ("a", "b"):
        _chat(stage, rollout, provider={"order": [name]})


@trick("by having its model write a tool call as text", "tool_calls_unparsed", "invalid")
def written_call(stage: Stage, rollout: Rollout) -> None:
    raw = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'
    _chat(stage, rollout, _user(engine.SAY + raw))


@trick("by having its model write an error's message", "error_as_answer", "suspect")
def written_error(stage: Stage, rollout: Rollout) -> None:
    _chat(stage, rollout)
    _chat(stage, rollout, _user(f"{engine.SAY}[API ERROR] HTTP 500: Internal Server Error"))


@trick("by having its model say the same to longer prompts", "answers_identical", "suspect")
def written_thrice(stage: Stage, rollout: Rollout) -> None:
    for times in range(3):
        _chat(stage, rollout, _user(_TASK), *_GO_ON * times)


@trick(
    "by waiting for its model until the task times out",
    "starved", "suspect", status="task_timeout", termination_reason=None,
)  # fmt: skip
def waits_out_the_task(stage: Stage, rollout: Rollout) -> None:
    think_s, took_s = 0.75, 0.0
    while took_s <= 0 or took_s > 1.2 * think_s:  # for longer than all else, on a busy machine too
        think_s = max(think_s, 4 * took_s)
        began = time.monotonic()
        _chat(stage, rollout, think_s=think_s)
        took_s = time.monotonic() - began


@trick("by calls that its harness does not count", "usage_mismatch", "suspect", total_tokens=20)
def calls_beside_the_harness(stage: Stage, rollout: Rollout) -> None:
    for _ in range(3):
        _chat(stage, rollout)


@trick("by beginning again from another address", "duplicate_identity", "suspect")
def begins_twice(stage: Stage, rollout: Rollout) -> None:
    for source in ("127.0.0.1", "127.0.0.2"):
        _chat(stage, rollout, source=source)


@trick("by a conversation that grows by nothing that is counted", "prompt_truncated", "invalid")
def stuck_prompt(stage: Stage, rollout: Rollout) -> None:
    for times in range(3):
        padding = "x" * 1_000 * times  # nobody reads metadata
        _chat(stage, rollout, _user(_TASK), *_GO_ON * times, metadata={"padding": padding})


@trick("by emptying an earlier message of its conversation", "prompt_truncated", "suspect")
def shrinking_prompt(stage: Stage, rollout: Rollout) -> None:
    _chat(stage, rollout, _user(_TASK), _assistant(_ASIDE), _user("Go on."))
    _chat(stage, rollout, _user(_TASK), *_GO_ON * 2, metadata={"padding": "x" * 4_000})


@trick("by failing in the name of a judge", None)
def fails_as_a_judge(stage: Stage, rollout: Rollout) -> None:
    _chat(stage, rollout)
    body = json.dumps({"model": "no-such", "messages": [_user("Grade it.")]}).encode()
    for base in ("/as/judge", ""):
        for _ in range(2):
            path = f"{rollout.path}{base}/openai/v1/chat/completions"
            assert stage.call(path, "x-truezero-role: judge", body=body).status == 404


@trick("by asking the engine to abort", None)
def asks_for_an_abort(stage: Stage, rollout: Rollout) -> None:
    _chat(stage, rollout, rid="own")
    for upstream in ("openai", "sglang"):  # with the operator's key, and with none
        for path in _STOPS:
            refused = stage.call(f"{rollout.path}/{upstream}{path}", body=b'{"abort_all": true}')
            assert refused.refusal == "path_not_allowed", (upstream, path, refused)


# --- what came of them ---------------------------------------------------------------------


def _found(verdict: dict[str, Any]) -> dict[str, str]:
    return {each["check"]: each["level"] for each in verdict["validity"]}


def _assert_found(trick: Trick, verdict: dict[str, Any]) -> None:
    if trick.check is None:
        assert set(_found(verdict)) <= {"model_substituted"}, verdict
    else:
        assert _found(verdict).get(trick.check) == trick.level, verdict["validity"]


def _tried(stage: Stage, trick: Trick, **asked: object) -> dict[str, Any]:
    """Play a trick in a rollout of its own; its verdict, which shows what was found."""
    rollout = stage.rollout(**asked)
    trick.play(stage, rollout)
    verdict = stage.judged(rollout, **trick.reported)
    if trick.check is None:
        assert verdict["validity"] == [], verdict
    else:
        assert _found(verdict).get(trick.check) == trick.level, verdict["validity"]
    return verdict


def _assert_score_stands(stage: Stage, trick: Trick) -> None:
    """Solve 4 of 10 and play the trick in the others: 0.4, and nothing is to be run again."""
    stage.provider.plays(engine.obedient)
    tries = [
        {"policy": _STRICT, "batch": trick.name, "task": f"t{number}", "roles": ["judge"]}
        for number in range(_TRIES)
    ]
    for one in tries[:_SOLVED]:
        rollout = stage.rollout(**one)
        _chat(stage, rollout)
        stage.judged(rollout, rewards={"reward": 1.0})
    failing = tries[_SOLVED:]
    with ThreadPoolExecutor(len(failing)) as agents:  # one trick waits
        verdicts = list(agents.map(lambda one: _tried(stage, trick, **one), failing))
    for verdict in verdicts:
        assert (verdict["scoreable"], verdict["retry"]["eligible"]) == ("yes", False), verdict
        assert verdict["excluded_by"] == [], verdict
    batch = stage.service.get(f"/batches/{trick.name}")
    assert batch["score_effective"] == _SOLVED / _TRIES, batch
    if trick.level:
        assert batch["validity"] == {trick.level: len(failing)}, batch["validity"]


@claim(
    "where agents are trusted, what spoilt a measurement takes its score, as far as policy says",
    slow=True,
)
def where_agents_are_trusted(stage: Stage) -> None:
    stage.provider.plays(engine.obedient)
    tried = [
        (trick, mildest)
        for mildest in (Level.INVALID, Level.SUSPECT)
        for trick in TRICKS
        if trick.check
    ]

    def verdict_of(trick: Trick, mildest: Level) -> dict[str, Any]:
        return _tried(stage, trick, policy={"agents": "trusted", "validity": mildest})

    with ThreadPoolExecutor(len(tried)) as agents:  # one trick waits
        verdicts = list(agents.map(verdict_of, *zip(*tried, strict=True)))
    for (trick, mildest), verdict in zip(tried, verdicts, strict=True):
        lost = trick.level in (mildest, Level.INVALID)
        assert verdict["scoreable"] == ("no" if lost else "yes"), verdict
        assert (trick.check in verdict["excluded_by"]) == lost, verdict


@claim("an engine that aborts, and a judge that fails, take the score of untrusted agents too")
def what_no_agent_causes(stage: Stage) -> None:
    aborted, unjudged = (
        stage.rollout(policy={"agents": "untrusted"}, roles=["judge"]) for _ in range(2)
    )
    half = Reply(model="gpt-5", input_tokens=300, output_tokens=9, text=("I am",))
    stage.provider.plays(engine.obedient)
    for rollout in (aborted, unjudged):
        _chat(stage, rollout)
    abort = replies.answer(Api.CHAT, replace(half, finish=Finish.ABORT), streams=False)
    stage.provider.plays(abort)
    _chat(stage, aborted)
    stage.provider.plays(answers.whole({"error": {"message": "overloaded"}}, 503))
    base = unjudged.roles["judge"]["base_urls"]["openai"].removeprefix(stage.service.url)
    for _ in range(3):
        assert stage.call(f"{base}/chat/completions").status == 503
    for rollout, check in ((aborted, "engine_aborted"), (unjudged, "judge_failed")):
        verdict = stage.judged(rollout)
        assert (verdict["health"], verdict["scoreable"]) == ("healthy", "no"), verdict
        assert (verdict["excluded_by"], _found(verdict)) == ([check], {check: "invalid"}), verdict

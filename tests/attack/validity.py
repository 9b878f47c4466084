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

    ``name`` is also that of the batch in which it is tried; ``play`` makes its calls. ``check`` and
    ``level``: None where nothing is to be found. ``reported``: what its runner reports beside the
    zero.
    """

    name: str
    play: _Play
    check: str | None
    level: str | None
    reported: Mapping[str, object]


TRICKS: list[Trick] = []


def _register(
    name: str,
    how: str,
    play: _Play,
    check: str | None = None,
    level: str | None = None,
    reported: Mapping[str, object] | None = None,
) -> None:
    """Register a trick, and the claim that it lifts no score."""
    one = Trick(name=name, play=play, check=check, level=level, reported=reported or {})
    TRICKS.append(one)

    def attack(stage: Stage) -> None:
        _assert_score_stands(stage, one)

    attack.__name__ = name
    claim(f"an agent that solves 4 of 10 scores no more than 0.4 {how}", slow=True)(attack)


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


def _calls(*asked: Mapping[str, Any]) -> _Play:
    """Make calls, each with these members; ``say``: what the user says, or all that is said."""

    def play(stage: Stage, rollout: Rollout) -> None:
        for one in asked:
            more = dict(one)
            said = more.pop("say", ())
            _chat(stage, rollout, *((_user(said),) if isinstance(said, str) else said), **more)

    return play


def _waits_out_the_task(stage: Stage, rollout: Rollout) -> None:
    think_s, took_s = 0.75, 0.0
    while took_s <= 0 or took_s > 1.2 * think_s:  # for longer than all else, on a busy machine too
        think_s = max(think_s, 4 * took_s)
        began = time.monotonic()
        _chat(stage, rollout, think_s=think_s)
        took_s = time.monotonic() - began


def _fails_as_a_judge(stage: Stage, rollout: Rollout) -> None:
    _chat(stage, rollout)
    body = json.dumps({"model": "no-such", "messages": [_user("Grade it.")]}).encode()
    for base in ("/as/judge", ""):
        for _ in range(2):
            path = f"{rollout.path}{base}/openai/v1/chat/completions"
            assert stage.call(path, "x-truezero-role: judge", body=body).status == 404


def _asks_for_an_abort(stage: Stage, rollout: Rollout) -> None:
    _chat(stage, rollout, rid="own")
    for upstream in ("openai", "sglang"):  # with the operator's key, and with none
        for path in _STOPS:
            refused = stage.call(f"{rollout.path}/{upstream}{path}", body=b'{"abort_all": true}')
            assert refused.refusal == "path_not_allowed", (upstream, path, refused)


_PLAIN: Mapping[str, Any] = {}
_WHOLE = "." * engine.BYTES_PER_TOKEN * (engine.WINDOW - 64)
_RAW = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'
_GROWING = [(_user(_TASK), *_GO_ON * times) for times in range(3)]
_PADDED = [{"padding": "x" * 1_000 * times} for times in range(3)]  # nobody reads metadata

# fmt: off
_register("low_limit", "by a limit so low that its last answer is cut",
          _calls(_PLAIN, {"max_tokens": 64}), "output_truncated", "suspect")
_register("two_limits", "by two limits, of which the engine takes the lower",
          _calls(_PLAIN, {"max_tokens": 64, "max_completion_tokens": 4_000}),
          "output_truncated", "suspect")
_register("full_window", "by a prompt that leaves its answer no room",
          _calls({"say": _WHOLE, "max_tokens": 4_000}), "output_truncated", "invalid")
_register("all_reasoning", "by a limit that reasoning uses up",
          _calls(_PLAIN, {"reasoning_effort": "high", "max_completion_tokens": 64}),
          "reasoning_ate_budget", "suspect")
_register("asked_for_fallback", "by having its gateway fall back",
          _calls({"mock_testing_fallbacks": True}), "model_substituted", "invalid")
_register("other_models", "by naming other models to its gateway",
          _calls(_PLAIN, {"models": ["gpt-5", "gpt-4.1-nano"]}), "model_substituted", "suspect")
_register("other_providers", "by naming other providers to its gateway",
          _calls(*({"provider": {"order": [name]}} for name in "ab")), "serving_changed", "info")
_register("written_call", "by having its model write a tool call as text",
          _calls({"say": engine.SAY + _RAW}), "tool_calls_unparsed", "invalid")
_register("written_error", "by having its model write an error's message",
          _calls(_PLAIN, {"say": f"{engine.SAY}[API ERROR] HTTP 500: Internal Server Error"}),
          "error_as_answer", "suspect")
_register("written_thrice", "by having its model say the same to longer prompts",
          _calls(*({"say": said} for said in _GROWING)), "answers_identical", "suspect")
_register("waits_out_the_task", "by waiting for its model until the task times out",
          _waits_out_the_task, "starved", "suspect",
          {"status": "task_timeout", "termination_reason": None})
_register("calls_beside_the_harness", "by calls that its harness does not count",
          _calls(*[_PLAIN] * 3), "usage_mismatch", "suspect", {"total_tokens": 20})
_register("begins_twice", "by beginning again from another address",
          _calls({"source": "127.0.0.1"}, {"source": "127.0.0.2"}), "duplicate_identity", "suspect")
_register("stuck_prompt", "by a conversation that grows by nothing that is counted",
          _calls(*({"say": said, "metadata": metadata}
                   for said, metadata in zip(_GROWING, _PADDED, strict=True))),
          "prompt_truncated", "invalid")
_register("shrinking_prompt", "by emptying an earlier message of its conversation",
          _calls({"say": (_user(_TASK), _assistant(_ASIDE), _user("Go on."))},
                 {"say": _GROWING[2], "metadata": {"padding": "x" * 4_000}}),
          "prompt_truncated", "suspect")
_register("fails_as_a_judge", "by failing in the name of a judge", _fails_as_a_judge)
_register("asks_for_an_abort", "by asking the engine to abort", _asks_for_an_abort)
# fmt: on


# --- what came of them ---------------------------------------------------------------------


def _found(verdict: dict[str, Any]) -> dict[str, str]:
    return {each["check"]: each["level"] for each in verdict["validity"]}


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

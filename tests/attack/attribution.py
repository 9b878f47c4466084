"""Attacks on the score: an untrusted agent ends a failing rollout on a failure of its own."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.attack.claims import claim
from tests.attack.stage import BOGUS, CHAT, SILENT_S, Rollout, Stage, only_operators
from tests.fakes import answers
from tests.fakes.provider import Answer, Hang, Request

_UNTRUSTED = {"agents": "untrusted"}
_NOT_FOUND = {"message": "The model `x` does not exist", "code": "model_not_found"}
_QUOTA = {"message": "You exceeded your current quota", "code": "insufficient_quota"}
_TOO_LONG = {"message": "maximum context length is 8 tokens", "code": "context_length_exceeded"}

_CODED = Answer(
    headers=(("content-type", "application/json"), ("content-encoding", "x-own")),
    body=(b"\x93\x01\xf0",),
)


def _untrusted(stage: Stage, **asked: object) -> Rollout:
    return stage.rollout(policy=_UNTRUSTED, **asked)


def _asking(**more: object) -> bytes:
    """A chat completion that offers a tool, as agents' calls do."""
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}], "tools": [tool]}
    return json.dumps({**body, **more}).encode()


def _failing(when: bytes, status: int, error: dict[str, str]) -> Any:
    """Be a provider that fails where such bytes are in the request, and answers the others."""

    def script(request: Request) -> Answer:
        shown = request.body + str(request.headers).encode()
        failure = answers.whole({"error": error}, status)
        return failure if when in shown else answers.chat_tools()

    return script


def _provoked(
    stage: Stage, when: bytes, status: int, error: dict[str, str], *bodies: bytes
) -> Rollout:
    """Be answered once, then ask for what fails."""
    rollout = _untrusted(stage)
    stage.provider.plays(_failing(when, status, error))
    assert stage.chat(rollout, body=_asking()).status == 200
    for body in bodies:
        assert stage.chat(rollout, body=body).status == status
    return rollout


def _assert_counted(stage: Stage, rollout: Rollout) -> None:
    """The zero counts, nothing is to be run again, and the verdict says why."""
    verdict = stage.judged(rollout)
    assert (verdict["scoreable"], verdict["retry"]["eligible"]) == ("yes", False), verdict
    assert verdict["attributed_to"] == "agent", verdict
    assert {"failed_by_agent", "provoked_suspected"} & set(verdict["warnings"]), verdict
    result = stage.service.get(f"/rollouts/{rollout.id}/result")
    assert result["rewards"] == {"reward": 0.0}, result


@claim("an agent that solves 4 of 10 and ends the others on a dead upstream scores 0.4", slow=True)
def dead_upstream(stage: Stage) -> None:
    for number in range(10):
        rollout = _untrusted(stage, batch="dead-upstream", task=f"t{number}")
        stage.provider.plays(answers.chat_tools())
        assert stage.chat(rollout, body=_asking()).status == 200
        if number < 4:
            stage.judged(rollout, rewards={"reward": 1.0})
            continue
        stage.call(f"{rollout.path}/groq/v1/chat/completions", body=_asking())
        _assert_counted(stage, rollout)
    batch = stage.service.get("/batches/dead-upstream")
    assert batch["score_effective"] == 0.4, batch


@claim("a model that does not exist takes no zero away")
def unknown_model(stage: Stage) -> None:
    for asked in ({}, {"model": "gpt-5"}):
        rollout = _untrusted(stage, **asked)
        stage.provider.plays(_failing(b"no-such", 404, _NOT_FOUND))
        stage.chat(rollout, body=_asking())
        stage.chat(rollout, body=_asking(model="no-such"))
        if not asked:
            _assert_counted(stage, rollout)
        assert stage.judged(rollout)["scoreable"] == "yes"


@claim("a request too long for another model takes no zero away")
def too_long_for_another_model(stage: Stage) -> None:
    bodies = [_asking(model="gpt-5-nano")] * 3
    _assert_counted(stage, _provoked(stage, b"gpt-5-nano", 400, _TOO_LONG, *bodies))


@claim("a bad key after a good one takes no zero away, under a dated name either")
def another_key(stage: Stage) -> None:
    rollout = _untrusted(stage)
    path = f"{rollout.path}/together/v1/chat/completions"
    stage.provider.plays(_failing(BOGUS.encode(), 401, {"message": "Incorrect API key provided"}))
    dated = _asking(model="gpt-5-2026-08-01")
    assert stage.call(path, "Authorization: Bearer sk-good", body=dated).status == 200
    assert stage.call(path, f"Authorization: Bearer {BOGUS}", body=_asking()).status == 401
    _assert_counted(stage, rollout)


@claim("a body that names two models takes no zero away")
def two_models_in_one_body(stage: Stage) -> None:
    twice = _asking().replace(b'{"model"', b'{"model": "no-such", "model"')
    _assert_counted(stage, _provoked(stage, b"no-such", 404, _NOT_FOUND, twice))


@claim("a service tier that its account has no quota for takes no zero away")
def another_selection(stage: Stage) -> None:
    flex = _asking(service_tier="flex")
    _assert_counted(stage, _provoked(stage, b"service_tier", 429, _QUOTA, flex))


@claim("hanging up on a silent provider takes no zero away, where it answers a plain question")
def hang_up(stage: Stage) -> None:
    def silent_in_streams(request: Request) -> Answer:
        streams = b'"stream": true' in request.body
        return Answer(body=(Hang(),), length=10) if streams else answers.chat_tools("gpt-hung-up")

    rollout = _untrusted(stage)
    stage.provider.plays(silent_in_streams)
    stage.chat(rollout, body=_asking(model="gpt-hung-up"))
    with stage.connection() as connection:
        body = _asking(model="gpt-hung-up", stream=True)
        connection.sendall(stage.head(rollout, f"Content-Length: {len(body)}") + body)
        time.sleep(SILENT_S)
    stage.wait_until_ended(rollout, calls=2)
    _assert_counted(stage, rollout)


@claim("a rate limit that its own burst causes takes no zero away")
def burst(stage: Stage) -> None:
    rollout = _untrusted(stage)
    stage.provider.plays(answers.chat_tools("gpt-burst"))
    for _ in range(24):
        stage.chat(rollout, body=_asking(model="gpt-burst"))
    stage.provider.plays(answers.whole({"error": {"message": "Rate limit reached"}}, 429))
    stage.chat(rollout, body=_asking(model="gpt-burst"))
    _assert_counted(stage, rollout)


@claim("making no call at all takes no zero away")
def no_call(stage: Stage) -> None:
    _assert_counted(stage, _untrusted(stage))


@claim("asking for answers in a coding that nobody reads takes no zero away")
def unseen_answers(stage: Stage) -> None:
    def script(request: Request) -> Answer:
        coded = b"x-own" in str(request.headers).encode()
        return _CODED if coded else answers.chat_tools()

    stage.provider.plays(script)
    rollout = _untrusted(stage)
    assert stage.chat(rollout, "accept-encoding: x-own", body=_asking()).body == _CODED.content
    assert [each["answer_state"] for each in stage.exchanges(rollout)] == ["unseen"]
    _assert_counted(stage, rollout)


@claim("asking for answers that nobody can read takes no zero away, be they all or the last two")
def unread_answers(stage: Stage) -> None:
    stage.provider.plays(_failing(b"unread", 200, {}))
    for read in (0, 1):
        rollout = _untrusted(stage)
        for user in ("read",) * read + ("unread",) * 2:
            assert stage.chat(rollout, body=_asking(user=user)).status == 200
        assert stage.exchanges(rollout)[-1]["answer_state"] == "unread"
        verdict = stage.judged(rollout)
        assert (verdict["scoreable"], verdict["retry"]["eligible"]) == ("yes", False), verdict
        result = stage.service.get(f"/rollouts/{rollout.id}/result")
        assert result["rewards"] == {"reward": 0.0}, result


@claim("an agent that only uploads files has a zero that counts")
def only_uploads(stage: Stage) -> None:
    stage.provider.plays(answers.whole({"id": "file-1", "object": "file"}))
    rollout = _untrusted(stage)
    own = f"authorization: Bearer {BOGUS}"
    assert stage.call(f"{rollout.path}/together/v1/files", own).status == 200
    _assert_counted(stage, rollout)


@claim("five rollouts with bogus keys open no breaker, and doom nobody")
def breaker_by_bogus_keys(stage: Stage) -> None:
    stage.provider.plays(only_operators)
    for _ in range(5):
        rollout = _untrusted(stage, batch="bogus-keys", model="gpt-5", upstream="openai")
        for _ in range(2):
            stage.chat(rollout, f"Authorization: Bearer {BOGUS}", body=CHAT)
        assert not stage.judged(rollout)["doomed"]
    batch = stage.service.register(batch="bogus-keys", model="gpt-5", upstream="openai")
    assert batch["admitted"], batch


@claim("five rollouts that ask for no such model open no breaker of those that do not", slow=True)
def breaker_by_unknown_models(stage: Stage) -> None:
    stage.provider.plays(_failing(b"no-such", 404, _NOT_FOUND))
    for _ in range(5):
        rollout = _untrusted(stage, batch="no-such")
        stage.chat(rollout, body=_asking())
        stage.chat(rollout, body=_asking(model="no-such"))
        stage.judged(rollout)
    for asked in ({}, {"model": "gpt-5", "upstream": "openai"}):
        assert stage.service.register(batch="no-such", **asked)["admitted"], asked


@claim("an outage and a dead key of the operator leave the score as before", slow=True)
def honest_failures(stage: Stage) -> None:
    for status, message in ((503, "overloaded"), (401, "Incorrect API key provided")):
        model = f"model-{status}"  # a lane of its own: no other rollout is answered on it meanwhile
        rollouts = [_untrusted(stage, model=model, upstream="openai") for _ in range(3)]
        stage.provider.plays(answers.chat_tools(model))
        for rollout in rollouts:
            stage.chat(rollout, body=_asking(model=model))
        stage.provider.plays(answers.whole({"error": {"message": message}}, status))
        for rollout in rollouts:
            stage.chat(rollout, body=_asking(model=model))
        for rollout in rollouts:
            verdict = stage.judged(rollout)
            assert (verdict["health"], verdict["scoreable"]) == ("api_error", "no"), verdict
            assert verdict["corroborated"], verdict

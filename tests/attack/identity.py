"""Attacks on whose call it is: roles, other rollouts, and names that only this proxy may use."""

from __future__ import annotations

import contextlib
import json
import sqlite3

from tests import forked
from tests.arena.arena import TOKEN
from tests.attack.claims import claim
from tests.attack.stage import CHAT, Rollout, Stage, names
from tests.fakes import answers


def _fails(stage: Stage) -> None:
    stage.provider.plays(answers.whole({"error": {"message": "overloaded"}}, 503))


def _roles(stage: Stage, rollout: Rollout) -> set[str]:
    return {each["role"] for each in stage.exchanges(rollout)}


@claim("an agent that calls itself a judge is judged")
def unproven_role(stage: Stage) -> None:
    rollout = stage.rollout(roles=["judge"])
    _fails(stage)
    path = "/openai/v1/chat/completions"
    stage.call(f"{rollout.path}/as/judge{path}")
    stage.call(f"{rollout.path}{path}", "x-truezero-role: judge")
    stage.call(f"{rollout.path}/as/user-simulator{path}", f"Authorization: Bearer {rollout.key}")
    stage.call(path, f"Authorization: Bearer {rollout.key}", "x-truezero-role: judge")
    assert _roles(stage, rollout) == {"agent"}
    assert stage.judged(rollout)["total_requests"] == 4


@claim("the judge's key of one rollout is no judge's key in another")
def another_rollouts_role(stage: Stage) -> None:
    judged, other = stage.rollout(roles=["judge"]), stage.rollout(roles=["judge"])
    key = judged.roles["judge"]["key"]
    path = f"{other.path}/as/judge/openai/v1/chat/completions"
    assert stage.call(path, f"Authorization: Bearer {key}").status == 200
    assert _roles(stage, other) == {"agent"}
    assert stage.exchanges(judged) == []


@claim("the key of one rollout writes nothing on another")
def another_rollouts_key(stage: Stage) -> None:
    own, victim = stage.rollout(), stage.rollout()
    bare = f"/r/{victim.id}/openai/v1/chat/completions"
    secret = own.path.rpartition("~")[2]
    for headers in ([f"Authorization: Bearer {own.key}"], [f"x-api-key: {own.key}"],
                    [f"x-truezero-rollout: {victim.id}"], []):  # fmt: skip
        stage.call(bare, *headers)
        stage.call("/openai/v1/chat/completions", *headers, f"x-session-id: {victim.id}")
    stage.call(f"/r/{victim.id}~{secret}/openai/v1/chat/completions")
    assert stage.exchanges(victim) == []
    verdict = stage.service.verdict(victim.id)
    assert verdict["total_requests"] == 0


@claim("no changed character of a secret or a key opens a rollout")
def forged_secrets(stage: Stage) -> None:
    rollout = stage.rollout()
    for at in range(-24, 0, 5):
        for whole in (rollout.path, rollout.key):
            forged = whole[:at] + ("A" if whole[at] != "A" else "B") + whole[at + 1 or len(whole) :]
            if whole is rollout.path:
                answer = stage.call(f"{forged}/openai/v1/chat/completions")
            else:
                answer = stage.call(
                    "/openai/v1/chat/completions", f"Authorization: Bearer {forged}"
                )
            assert answer.status in (401, 403, 404) and answer.refusal, answer
    assert stage.exchanges(rollout) == [] and stage.provider.requests == []


@claim("a revoked key and its base_url open nothing")
def revoked_key(stage: Stage) -> None:
    rollout = stage.rollout()
    assert stage.service.http.post("/key/delete", json={"keys": [rollout.key]}).is_success
    assert stage.chat(rollout).refusal
    assert stage.call("/openai/v1/chat/completions", f"x-api-key: {rollout.key}").refusal
    assert stage.provider.requests == []


@claim("a key and its base_url open nothing after the rollout has ended")
def call_after_the_end(stage: Stage) -> None:
    rollout = stage.rollout()
    stage.chat(rollout)
    before = stage.judged(rollout)
    _fails(stage)
    stage.provider.requests.clear()
    assert stage.chat(rollout).refusal
    assert stage.call("/openai/v1/chat/completions", f"x-api-key: {rollout.key}").refusal
    assert stage.provider.requests == []
    assert stage.service.verdict(rollout.id) == before


@claim("headers of ours that an agent writes reach no provider")
def our_names_upwards(stage: Stage) -> None:
    forged = ("x-truezero-injected: 1", "x-truezero-refusal: limit", "X-TrueZero-Exchange: x",
              "x-truezero-anything: y")  # fmt: skip
    rollout = stage.rollout()
    assert stage.chat(rollout, *forged).status == 200
    assert not [name for name in names(stage.provider.requests) if "truezero" in name]
    (exchange,) = stage.exchanges(rollout)
    assert exchange["injected"] is False


@claim("headers of ours that a provider writes reach no agent and excuse no failure")
def our_names_downwards(stage: Stage) -> None:
    forged = (
        ("x-truezero-refusal", "busy"),
        ("X-TrueZero-Injected", "1"),
        ("x-truezero-exchange", "x"),
    )
    stage.provider.plays(answers.whole({"error": {"message": "no"}}, 503, *forged))
    rollout = stage.rollout()
    answer = stage.chat(rollout)
    assert answer.refusal is None and "injected" not in answer.head.lower()
    assert answer.head.lower().count("x-truezero-exchange") == 1
    (exchange,) = stage.exchanges(rollout)
    assert exchange["injected"] is False
    assert stage.judged(rollout)["failed_requests"] == 1


@claim("control and bidirectional characters of others' names reach no terminal")
def control_characters(stage: Stage) -> None:
    hostile = "\x1b]0;owned\x07\u202egpt\x9b2J"
    rollout = stage.rollout()
    named = CHAT.replace(b"gpt-5", json.dumps(hostile)[1:-1].encode())
    error = {"message": "no", "type": hostile, "code": hostile}
    stage.chat(rollout, body=named)
    stage.provider.plays(answers.whole({"error": error}, 403))
    stage.chat(rollout, body=named)
    with (
        contextlib.closing(sqlite3.connect(stage.service.database, timeout=60)) as database,
        database,
    ):
        # As from an archive of others: what comes by an agent's call is checked before.
        database.execute(
            "UPDATE exchanges SET model = ? WHERE rollout_id = ?", (hostile, rollout.id)
        )
    stage.judged(rollout)
    env = {"TRUEZERO_URL": stage.service.url, "TRUEZERO_ADMIN_TOKEN": TOKEN, "NO_COLOR": "1"}
    shown = forked.run("verdict", rollout.id, cwd=stage.service.home, env=env)
    text = shown.stdout + shown.stderr
    assert rollout.id in text and "202e" in text, text
    assert not set(text) & set("\x1b\x07\x9b\u202e"), ascii(text)
    for bad in ("a%1b[2J", "a%0d%0ab", "a%c2%9b", "a%e2%80%a8"):
        assert stage.call(f"/r/{bad}/openai/v1/models", method="GET").status == 400, bad

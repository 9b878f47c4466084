"""Attacks on the control plane: verdicts, keys and pages that are the operator's alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.arena.arena import TOKEN
from tests.arena.world import OPERATOR
from tests.attack.claims import claim
from tests.attack.stage import BOGUS, Rollout, Stage

_OPEN = {"/healthz", "/readyz"}


def _credentials(rollout: Rollout) -> Iterator[str]:
    secret = rollout.path.rpartition("~")[2]
    for shown in (rollout.key, secret, f"{rollout.id}~{secret}", OPERATOR, BOGUS, TOKEN[:-1], ""):
        yield f"Authorization: Bearer {shown}"
    yield f"x-api-key: {rollout.key}"
    yield f"Cookie: truezero_session={rollout.key}"
    yield f"x-truezero-rollout: {rollout.id}"
    yield "X-Forwarded-For: 127.0.0.1"


@claim("nothing that an agent holds opens a route of the control plane", slow=True)
def control_plane_with_an_agents_credentials(stage: Stage) -> None:
    rollout = stage.rollout()
    described = stage.service.get("/openapi.json")["paths"]
    routes = [(method.upper(), path) for path, methods in described.items() for method in methods]
    credentials = list(_credentials(rollout))
    assert len(routes) > 15
    for number, (method, path) in enumerate(routes):
        filled = re.sub(r"\{[^}]*\}", rollout.id, path)
        for header in (credentials[0], credentials[number % len(credentials)]):
            answer = stage.call(filled, header, "Content-Type: application/json",
                                method=method, body=b"{}")  # fmt: skip
            assert path in _OPEN or answer.status == 401, (method, path, header, answer.status)


@claim("an agent cannot report its own outcome, nor replace its verdict")
def an_outcome_of_its_own(stage: Stage) -> None:
    rollout = stage.rollout()
    stage.chat(rollout)
    forged = b'{"status":"success","rewards":{"reward":1.0}}'
    for header in _credentials(rollout):
        for path in (
            f"/rollouts/{rollout.id}/outcome",
            f"{rollout.path}/rollouts/{rollout.id}/outcome",
        ):
            answer = stage.call(path, header, "Content-Type: application/json", body=forged)
            assert answer.status in (401, 404), (path, header, answer)
    assert stage.service.verdict(rollout.id)["provisional"]


@claim("no spelling of a path leads past the check of the token")
def control_plane_by_another_path(stage: Stage) -> None:
    rollout = stage.rollout()
    shown = f"Authorization: Bearer {rollout.key}"
    for path in ("/rollouts/", "//rollouts", "/%72ollouts", "/ROLLOUTS", "/healthz/../rollouts",
                 "/rollouts;x", "/rollouts%2f", "/./rollouts", "/ui/static/../../rollouts",
                 "/ui/static/%2e%2e/%2e%2e/rollouts", "/rollouts?x=/healthz", "/rollouts#/healthz",
                 "http://127.0.0.1/rollouts", f"{rollout.path}/../rollouts"):  # fmt: skip
        answer = stage.call(path, shown, method="GET")
        assert answer.status in (307, 308, 400, 401, 404), (path, answer.status)
        assert b'"items"' not in answer.body, path


@claim("a page elsewhere changes nothing with a user's session, and reads no REST")
def a_users_session(stage: Stage) -> None:
    http = stage.service.http
    signed = http.post("/ui/sign-in", data={"token": TOKEN}, headers={"origin": stage.service.url})
    cookie = signed.headers.get("set-cookie", "")
    http.cookies.clear()
    assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower(), signed.status_code
    shown = f"Cookie: {cookie.partition(';')[0]}"
    assert stage.call("/rollouts", shown, method="GET").status == 401
    rollout = stage.rollout()
    for origin in ("http://evil.example", "null", "http://127.0.0.1.evil.example"):
        answer = stage.call("/rollouts", shown, f"Origin: {origin}", "Content-Type: text/plain",
                            body=b'{"id":"forged"}')  # fmt: skip
        assert answer.status in (401, 403)
        assert "access-control-allow" not in answer.head.lower()
        called = stage.call(
            f"/rollouts/{rollout.id}/outcome", shown, f"Origin: {origin}", body=b"{}"
        )
        assert called.status in (401, 403)
    assert http.get("/rollouts/forged/verdict").status_code == 404

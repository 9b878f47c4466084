from __future__ import annotations

from fastapi import FastAPI
from fastapi.testclient import TestClient

from proxy.api import problems
from proxy.api.gone import gone


def answer(method: str, path: str, calls: tuple[tuple[str, str, str], ...]) -> tuple[int, str, str]:
    app = FastAPI()
    app.routes.extend(gone(calls).routes)
    problems.install(app)
    answered = TestClient(app).request(method, path)
    return answered.status_code, answered.json()["code"], answered.json()["detail"]


def test_a_call_that_is_gone_is_410_and_says_what_takes_its_place() -> None:
    calls = (("POST", "/batches/{batch:path}/seal", "sign the file"),)
    said = "this call is gone: POST /batches/{batch:path}/seal: sign the file"
    assert answer("POST", "/batches/a/b/seal", calls) == (410, "gone", said)


def test_another_call_is_answered_as_ever() -> None:
    calls = (("POST", "/batches/{batch:path}/seal", "sign the file"),)
    assert answer("POST", "/batches/a/b", calls)[:2] == (404, "not_found")

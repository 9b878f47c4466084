"""The provider that keeps a limit, and the figures of docs/measurements/pace.md."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import httpx
import pytest

from benchmarks import machine
from benchmarks.pace import Counts, Scenario, use
from benchmarks.run import build_tools
from proxy.features.pace.stated_limits import Unit, allowances

LIMIT = 60


@pytest.fixture
def provider(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    port = machine.free_port()
    command = [build_tools() / "provider", str(port), *request.param]
    with machine.running(command, core=None) as process:
        machine.wait_for_port(port, process)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            client.headers["x-pid"] = str(process.pid)
            yield client


def stated(answer: httpx.Response) -> dict[Unit, tuple[float | None, float | None]]:
    """Return limit and remaining, by unit, as a lane reads them."""
    headers = [(name.lower(), value) for name, value in answer.headers.raw]
    return {each.unit: (each.limit, each.remaining) for each in allowances(headers, now=0.0)}


needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@needs_compiler
@pytest.mark.parametrize("provider", [[f"requests={LIMIT}"]], indirect=True)
def test_the_provider_refuses_what_its_limit_does_not_hold(provider: httpx.Client) -> None:
    answers = [provider.post("/", content=b"{}") for _ in range(LIMIT)]
    while (refused := provider.post("/", content=b"{}")).status_code == 200:
        answers.append(refused)  # what came back meanwhile
    assert {answer.status_code for answer in answers} == {200}
    assert stated(answers[0])[Unit.REQUESTS] == (LIMIT, LIMIT - 1)
    assert refused.status_code == 429
    assert stated(refused)[Unit.REQUESTS] == (LIMIT, 0)
    assert 0 < float(refused.headers["retry-after-ms"]) <= 1_001
    counts = Counts(**provider.get("/").json())
    assert (counts.answered, counts.refused) == (len(answers), 1)
    assert counts.answered <= LIMIT + counts.requests, "more than there was and came back"


def test_the_use_of_a_limit_is_of_what_came_back_meanwhile() -> None:
    before = Counts(answered=100, refused=0, requests=50.0, tokens=500.0, spent=90)
    after = Counts(answered=119, refused=3, requests=70.0, tokens=900.0, spent=390)
    assert use(Scenario(name="requests", requests=1), before, after) == 19 / 20
    assert use(Scenario(name="tokens", requests=1, tokens=1), before, after) == 300 / 400

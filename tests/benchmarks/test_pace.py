"""The provider that keeps a limit, and the figures of docs/measurements/pace.md."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator

import httpx
import pytest

from benchmarks import machine
from benchmarks.pace import Counts, Scenario, spread, use
from benchmarks.run import build_tools
from proxy.features.pace.stated_limits import Unit, allowances
from tests.waiting import until

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


@needs_compiler
@pytest.mark.parametrize("provider", [["tokens=1000"]], indirect=True)
def test_the_provider_takes_a_token_for_each_four_bytes(provider: httpx.Client) -> None:
    answer = provider.post("/", content=b"x" * 2_400)
    assert answer.json()["usage"]["prompt_tokens"] == 600
    assert stated(answer)[Unit.TOKENS] == (1_000, 400)
    assert provider.post("/", content=b"x" * 2_400).status_code == 429
    assert Counts(**provider.get("/").json()).spent == 600


@needs_compiler
@pytest.mark.parametrize("provider", [[f"requests={LIMIT}", "unstated"]], indirect=True)
def test_the_provider_may_keep_its_limit_to_itself(provider: httpx.Client) -> None:
    assert stated(provider.post("/", content=b"{}")) == {}


@needs_compiler
@pytest.mark.parametrize("provider", [[f"requests={LIMIT}", "left=2"]], indirect=True)
def test_the_provider_may_have_little_left_at_first(provider: httpx.Client) -> None:
    first = provider.post("/", content=b"{}")
    assert first.status_code == 200
    assert (stated(first)[Unit.REQUESTS][1] or 0) < LIMIT / 2


@needs_compiler
@pytest.mark.parametrize("provider", [[f"requests={LIMIT}"]], indirect=True)
def test_the_provider_halves_its_limit_when_told(provider: httpx.Client) -> None:
    os.kill(int(provider.headers["x-pid"]), signal.SIGUSR1)

    def limit() -> float | None:
        return stated(provider.post("/", content=b"{}"))[Unit.REQUESTS][0]

    until(lambda: limit() == LIMIT / 2)


def test_the_use_of_a_limit_is_of_what_came_back_meanwhile() -> None:
    before = Counts(answered=100, refused=0, requests=50.0, tokens=500.0, spent=90)
    after = Counts(answered=119, refused=3, requests=70.0, tokens=900.0, spent=390)
    assert use(Scenario(name="requests", requests=1), before, after) == 19 / 20
    assert use(Scenario(name="tokens", requests=1, tokens=1), before, after) == 300 / 400


def test_the_spread_is_of_means_by_agent() -> None:
    assert spread([(1, 1.0), (1, 3.0), (2, 1.0), (2, 1.5), (2, 0.5)]) == 2.0

"""The load generator, as far as it speaks otherwise than one expects of any."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import machine
from benchmarks.run import build_tools
from tests.fakes import answers
from tests.fakes.provider import Answer, Provider

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@pytest.fixture(scope="module")
def load() -> Path:
    return build_tools() / "load"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(answers.chat()) as provider:
        yield provider


def asked(load: Path, provider: Provider, *options: str) -> dict[str, object]:
    port = provider.url.rpartition(":")[2]
    done = subprocess.run([load, "-p", port, *options], capture_output=True, check=True)
    counted: dict[str, object] = json.loads(done.stdout)
    return counted


def test_a_header_is_sent_as_it_was_given(load: Path, provider: Provider) -> None:
    asked(load, provider, "-n", "1", "-H", "x-portkey-provider: openai", "-H", "x-other: b")
    (request,) = provider.requests
    assert request.header("x-portkey-provider") == "openai"
    assert request.header("x-other") == "b"


def test_a_rollouts_number_goes_up_every_so_many_requests(load: Path, provider: Provider) -> None:
    asked(load, provider, "-P", "/r/b-######/x", "-k", "2", "-n", "5", "-c", "1")
    paths = Counter(request.path for request in provider.requests)
    assert paths == {"/r/b-000000/x": 2, "/r/b-000001/x": 2, "/r/b-000002/x": 1}


def test_each_request_may_have_a_connection_of_its_own(load: Path, provider: Provider) -> None:
    assert asked(load, provider, "-n", "6", "-c", "2")["opened"] == 2
    assert asked(load, provider, "-o", "-n", "6", "-c", "2")["opened"] == 6


def test_what_was_not_served_is_counted_and_not_hidden(load: Path) -> None:
    with Provider(Answer(status=503, body=(b"{}",))) as refusing:
        counted = asked(load, refusing, "-n", "3", "-c", "1")
    assert (counted["started"], counted["ok"], counted["refused"]) == (3, 0, 3)


_WORKS = """import os, signal, time
until = 0.3 + time.process_time()  # longer than a start takes, of which all counts
while time.process_time() < until: {}
"""
_STOPS = "os.kill(os.getpid(), signal.SIGSTOP)"


@pytest.mark.parametrize(
    ("work", "in_kernel"),
    [("os.urandom(1 << 20)", True), ("sum(range(9999))", False)],
    ids=["reads", "counts"],
)
def test_cpu_in_the_kernel_is_told_apart(work: str, in_kernel: bool) -> None:
    busy = subprocess.Popen([sys.executable, "-c", _WORKS.format(work) + _STOPS])
    try:
        os.waitpid(busy.pid, os.WUNTRACED)
        spent = machine.cpu_s(busy.pid)
        assert (machine.kernel_s(busy.pid) > spent / 2) is in_kernel
    finally:
        busy.kill()
        busy.wait()

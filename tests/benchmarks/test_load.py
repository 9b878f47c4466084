"""The load generator, as far as it speaks otherwise than one expects of any."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def test_what_was_not_served_is_counted_and_not_hidden(load: Path) -> None:
    with Provider(Answer(status=503, body=(b"{}",))) as refusing:
        counted = asked(load, refusing, "-n", "3", "-c", "1")
    assert (counted["started"], counted["ok"], counted["refused"]) == (3, 0, 3)

"""Commands that only print read what the SDK reads, and load neither httpx nor pydantic for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from pydantic import TypeAdapter

from tests.fakes.provider import Answer, Provider
from tests.truezero.cli.test_cli import loaded
from tests.truezero.driving import call, service
from truezero import Client, ServiceError
from truezero.cli import app
from truezero.cli.reader import Reader, is_direct


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with a batch of two rollouts: ``won``, and ``dead`` by its key."""
    with service(tmp_path_factory.mktemp("service")) as (address, _, _), Client(address) as client:
        for name, key in (("won", "sk-good"), ("dead", "sk-dead")):
            with client.batch("b/1").rollout(name, id=name) as rollout:
                call(rollout.env["OPENAI_BASE_URL"], key)
                rollout.finish(rewards=1.0)
        yield address


PRINTING = (("list",), ("batches",), ("batch", "b/1"), ("check", "b/1"), ("verdict", "dead"))


@pytest.mark.parametrize("words", PRINTING, ids=lambda words: words[0])
def test_json_is_what_the_sdk_reads(words: tuple[str, ...], url: str) -> None:
    printed = CliRunner().invoke(app, [*words, "--json", "--url", url]).stdout
    with Client(url) as client:
        read: dict[str, Callable[[], Any]] = {
            "list": lambda: [*client.iter_rollouts(order="desc")],
            "batches": lambda: [*client.iter_batches()],
            "batch": lambda: client.summary("b/1"),
            "check": lambda: client.check("b/1"),
            "verdict": lambda: client.verdict("dead"),
        }
        expected = TypeAdapter(Any).dump_python(read[words[0]](), mode="json")
    assert json.loads(printed) == expected


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, id=words[0], marks=[pytest.mark.slow] * (words is not PRINTING[0]))
        for words in PRINTING
    ],
)
def test_a_command_that_prints_loads_no_sdk(
    words: tuple[str, ...], url: str, tmp_path: Path
) -> None:
    modules = loaded(*words, "--url", url, folder=tmp_path)
    assert {"truezero.cli.reader", "truezero.cli.text", "rich.console"} <= modules
    slow = ("httpx", "pydantic", "truezero.models", "truezero.runner", "asyncio", "rich.markdown")
    assert not {name for name in modules if name.startswith(slow)}
    assert len(modules) < 300


@pytest.mark.parametrize(
    ("words", "page"),
    [
        (("list", "--batch", "b/1", "--reward", "zero"), "ui/rollouts?batch=b%2F1&reward=zero"),
        (
            ("list", "--false-zero", "--not-superseded"),
            "ui/rollouts?false_zero=true&superseded=false",
        ),
        (("batches",), ""),
        (("batch", "b/1"), "ui/batches/b%2F1"),
        (("check", "b/1"), "ui/batches/b%2F1"),
        (("groups", "b/1"), "ui/batches/b%2F1?tab=tasks"),
        (("rerun", "b/1"), "ui/batches/b%2F1?tab=again"),
        (("card", "b/1"), "ui/batches/b%2F1/card"),
        (("compare", "b/1", "b/1"), "ui/compare?a=b%2F1&b=b%2F1"),
        (("verdict", "dead"), "ui/rollouts/dead"),
        (("status",), "ui/status"),
    ],
)
def test_a_command_ends_with_the_address_of_its_page(
    words: tuple[str, ...], page: str, url: str
) -> None:
    piped = CliRunner().invoke(app, [*words, "--url", url])
    address = f"{url}/{page}"
    assert piped.stderr.splitlines()[-1] == address
    assert address not in piped.stdout.splitlines(), "a pipe gets rows alone"
    assert httpx.get(address, follow_redirects=True).status_code == 200


def test_a_page_is_read_after_another(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truezero.cli.reader._PAGE", 1)
    with Reader(url) as reader:
        assert [item.id for item in reader.iter_rollouts(order="asc")] == ["won", "dead"]


@pytest.mark.parametrize(
    ("address", "proxy", "direct"),
    [
        ("http://127.0.0.1:8383", None, True),
        ("http://localhost:8383", "http://proxy.test:3128", True),
        ("http://truezero.test", None, True),
        ("http://truezero.test", "http://proxy.test:3128", False),
        ("http://me:secret@127.0.0.1:8383", None, False),
        ("http://127.0.0.1:port", None, False),
    ],
)
def test_a_proxy_and_a_user_in_the_address_are_left_to_the_sdk(
    address: str, proxy: str | None, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    if proxy is not None:
        monkeypatch.setenv("http_proxy", proxy)
    assert is_direct(address) is direct


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"<html>", "other_service"),
        (b"[]", "other_service"),
        (b"{}", "other_service"),
        (b'{"version": "9.9.0"}', "other_version"),
    ],
)
def test_another_programs_answer_is_told_from_the_services(answer: bytes, code: str) -> None:
    with (
        Provider(Answer(body=(answer,))) as other,
        pytest.raises(ServiceError) as refused,
        Reader(other.url) as reader,
    ):
        reader.greet()
    assert refused.value.code == code

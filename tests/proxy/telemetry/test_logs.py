"""What the service says: one line a call with ids and counts, and never what was said."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from classifier.records import Exchange, Timing, Usage
from proxy.recording.backlog import FlushResult
from proxy.telemetry.logs import Log
from tests.builders import calls, exchange
from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Provider
from tests.journeys.service import Service
from tests.proxy.api.test_routes import PATIENCE_S, PLAIN

SECRET = "SECRET-a1b2"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def loggers_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("", "truezero", "uvicorn", "uvicorn.error")]
    before = [(each.level, each.handlers[:], each.filters[:], each.propagate) for each in loggers]
    yield
    for logger, (level, handlers, filters, propagate) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.handlers[:], logger.filters[:] = handlers, filters
        logger.propagate = propagate


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def observed(*exchanges: Exchange, out: io.StringIO | None = None) -> io.StringIO:
    out = out or io.StringIO()
    observe = Log(out=out).exchanges()
    assert observe is not None
    observe(FlushResult(ended=exchanges, waited_s=[], took_s=0.0))
    return out


def installed(**how: Any) -> io.StringIO:
    out: io.StringIO = how.pop("out", io.StringIO())
    Log(out=out, **how).install()
    return out


# --- calls ---------------------------------------------------------------------------------


def test_a_call_is_one_line_with_ids_and_counts() -> None:
    call = exchange(
        429,
        id="x1",
        rollout_id="r/1",
        timing=Timing(started_at=1.0, first_byte_s=0.25, duration_s=1.5),
        provider_request_id="req-7",
        usage=Usage(input_total=3, output_total=0),
    )
    (line,) = lines(observed(call))
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "exchange", "level": "info", "exchange": "x1", "rollout": "r/1", "role": "agent",
        "upstream": "openai", "api": "openai.chat", "model": "gpt-5", "status": 429,
        "ending": "complete", "subcategory": "rate_limit", "rule": "built.rate_limit",
        "duration_s": 1.5, "first_byte_s": 0.25, "input_tokens": 3, "output_tokens": 0,
        "request_bytes": 40000, "response_bytes": 0, "provider_request_id": "req-7",
    }  # fmt: skip


def test_what_is_unknown_is_left_out() -> None:
    (line,) = lines(observed(*calls("net")))
    missing = {"status", "input_tokens", "output_tokens", "first_byte_s", "injected"}
    assert not missing & line.keys()


def test_calls_of_one_turn_are_lines_of_their_own_in_writes_that_stay_whole() -> None:
    class Counting(io.StringIO):
        def __init__(self) -> None:
            super().__init__()
            self.sizes: list[int] = []

        def write(self, text: str) -> int:
            self.sizes.append(len(text))
            return super().write(text)

    out = Counting()
    observed(*(exchange(id=str(n)) for n in range(100)), out=out)
    assert [line["exchange"] for line in lines(out)] == [str(n) for n in range(100)]
    assert max(out.sizes) <= 4096  # what one write hands on whole
    assert len(out.sizes) < 20


def test_at_warning_calls_cost_nothing() -> None:
    assert Log(level="warning").exchanges() is None
    assert Log(level="error").exchanges() is None
    assert Log(level="debug").exchanges() is not None


@pytest.mark.parametrize("text", ["r\nfake=1", "r\x1b[2J", "r\u202egnp", "r\x00", "r\u2028x"])
def test_nobody_forges_a_line_or_moves_the_cursor(text: str) -> None:
    call = exchange(rollout_id=text, model=text, role=text, provider_request_id=text)
    for out in (Terminal(), io.StringIO()):
        said = observed(call, out=out).getvalue()
        assert said.count("\n") == 1
        assert len(said.splitlines()) == 1
        shown = said.replace("\x1b[0m", "").replace("\x1b[1m", "").replace("\x1b[2m", "")
        assert not {"\x1b[2J", "\u202e", "\x00", "\u2028"} & set(shown)
        assert "\x1b[2J" not in shown


def test_on_a_terminal_lines_are_for_eyes() -> None:
    said = observed(exchange(id="x1"), out=Terminal()).getvalue()
    assert "x1" in said
    with pytest.raises(json.JSONDecodeError):
        json.loads(said)


@pytest.mark.parametrize(("style", "out"), [("json", Terminal()), ("console", io.StringIO())])
def test_the_style_can_be_chosen(style: Any, out: io.StringIO) -> None:
    Log(style=style, out=out).announce("hello", url="http://x")
    assert out.getvalue().startswith("{") is (style == "json")
    assert "\x1b" not in out.getvalue() or out.isatty()


# --- other loggers -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["truezero.recorder", "uvicorn.error"])
def test_our_loggers_and_the_servers_speak_in_the_same_lines(name: str) -> None:
    out = installed(level="info")
    logging.getLogger(name).info("hello %s", "you")
    logging.getLogger(name).debug("not this")
    (line,) = lines(out)
    assert (line["event"], line["level"], line["logger"]) == ("hello you", "info", name)
    assert line["timestamp"].endswith("Z")


def test_libraries_are_heard_from_warning_on_whatever_the_level() -> None:
    out = installed(level="debug")
    for level in (logging.DEBUG, logging.INFO, logging.WARNING):
        logging.getLogger("httpx").log(level, "level %d", level)
    assert [line["event"] for line in lines(out)] == ["level 30"]


def test_what_the_server_had_set_up_for_itself_is_undone() -> None:
    uvicorn.Config(object(), log_level="error")  # type: ignore[arg-type]  # never run
    out = installed()
    logging.getLogger("uvicorn.error").info("once")
    assert [line["event"] for line in lines(out)] == ["once"]


def test_installing_again_doubles_nothing() -> None:
    out = io.StringIO()
    for _ in range(3):
        installed(out=out)
    logging.getLogger("truezero").warning("once")
    assert len(lines(out)) == 1
    assert len(logging.getLogger("uvicorn.error").filters) == 1


def test_the_servers_complaint_about_cut_answers_is_dropped() -> None:
    out = installed()
    logging.getLogger("uvicorn.error").error("ASGI callable returned without completing response.")
    logging.getLogger("uvicorn.error").error("something else")
    assert [line["event"] for line in lines(out)] == ["something else"]


def failing() -> None:
    raise ValueError(f"the prompt was {SECRET}")


@pytest.mark.parametrize("out", [io.StringIO(), Terminal()], ids=["json", "console"])
def test_of_an_exception_type_and_place_are_told_and_not_the_message(out: io.StringIO) -> None:
    installed(out=out)
    try:
        failing()
    except ValueError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application\n")
    said = out.getvalue()
    assert SECRET not in said
    assert "ValueError" in said
    assert "test_logs.py" in said
    assert "failing" in said
    assert len(said.splitlines()) == 1


async def test_a_task_nobody_awaited_does_not_tell_its_message() -> None:
    out = installed()

    async def lost() -> None:
        failing()

    task = asyncio.create_task(lost())
    await asyncio.wait([task])
    loop = asyncio.get_running_loop()
    loop.default_exception_handler(
        {"message": "never retrieved", "exception": task.exception(), "future": task}
    )
    (line,) = lines(out)
    assert (line["event"], line["raised"]) == ("never retrieved", "ValueError")
    assert SECRET not in out.getvalue()


# --- the service -------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_service_says_ids_and_never_what_was_said(tmp_path: Path) -> None:
    leaky = answers.FAILURES[Api.CHAT][Fault.AUTH]
    with Provider(answers.healthy) as provider, Service(tmp_path, provider.url) as service:
        made = [asked(service) for _ in range(8)]
        provider.plays(leaky)
        made.append(asked(service))
        service.stop()
        log = service.log()
    said = [json.loads(line) for line in log.splitlines()]
    calls_said = [line for line in said if line["event"] == "exchange"]
    assert [line["exchange"] for line in calls_said] == made
    assert [line["status"] for line in calls_said] == [200] * 8 + [401]
    assert said[0]["event"].startswith(f"truezero listening on {service.url} ")
    assert said[1]["event"] == (
        f"pages at {service.url}/; for commands and loops: export TRUEZERO_URL={service.url}"
    )
    assert "uvicorn.error" in {line.get("logger") for line in said}
    assert SECRET not in log
    assert "API key" not in log


def asked(service: Service) -> str:
    answer = httpx.post(
        service.base("r1", "openai") + f"/v1/chat/completions?key={SECRET}",
        json={"model": "gpt-5", "messages": [{"role": "user", "content": SECRET}]},
        headers={"authorization": f"Bearer {SECRET}", "cookie": SECRET},
        verify=PLAIN, timeout=PATIENCE_S,
    )  # fmt: skip
    return answer.headers["x-truezero-exchange"]


@pytest.mark.slow
def test_at_warning_the_service_says_where_it_listens_and_no_more(tmp_path: Path) -> None:
    with (
        Provider(answers.healthy) as provider,
        Service(tmp_path, provider.url, LOG_LEVEL="warning", LOG_FORMAT="console") as service,
    ):
        asked(service)
        service.stop()
        (line,) = service.log().splitlines()
    assert f"listening on {service.url} " in line

"""No prompt, completion or key is stored or logged, as the README promises.

Canaries are sent in every field of an agent and a provider, and searched for in all that is stored.
"""
# ruff: noqa: SLF001
# Private: the rows of the table of routes.

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from classifier.records import Kind
from classifier.verdicts import Subcategory
from proxy.wire import routes
from proxy.wire.dialects import others
from tests.fakes import answers
from tests.fakes.provider import Cut, Pause, Provider, closed_port
from tests.fakes.talker import RESPONSES_FAILED, Talker, answering, event, realtime
from tests.features.traces.test_traces import Collector, collecting
from tests.journeys.service import Service
from tests.privacy.canaries import COMPLETION, QUERY, WORDS, key, leaks
from tests.privacy.house import (
    ADMIN,
    AWAY,
    BABBLING,
    TALKING,
    UPSTREAMS,
    House,
    inherited,
    secrets_of,
    spills,
)
from tests.privacy.ways import ECHO, SOCKETS, Way, few, known, one_path_a_row, spoken, ways
from tests.proxy.api.test_routes import serving
from tests.proxy.outbound.test_credentials import Account

MARKED = "marked-model-7"  # planted where it may be kept, to see that the search looks there

_BABBLE = (
    (ECHO.encode(), Cut()),
    (b"HTTP/1.1 200 OK\r\n" + ECHO.encode() + b"\r\n\r\n", Cut()),
    (b"HTTP/1.1 200 OK\r\ncontent-length: " + QUERY.word.encode() + b"\r\n\r\n", Cut()),
    (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + ECHO.encode(), Cut()),
    (b"HTTP/1.1 200 " + QUERY.word.encode() + b"\r\n\r\n", Pause(0.05), ECHO.encode(), Cut()),
    (b"HTTP/1.1 999 " + ECHO.encode() + b"\r\n\r\n", Cut()),
    (b"HTTP/1.1 200 OK\r\nx: " + ECHO.encode() * 2000 + b"\r\n\r\n", Cut()),
    (Cut(reset=True),),
)


@dataclass
class Left:
    """All that was left behind, by where it was."""

    sent: int = 0
    kept: list[tuple[str, bytes]] = field(default_factory=list)
    spilled: list[tuple[str, bytes]] = field(default_factory=list)
    broken: list[tuple[str, bytes]] = field(default_factory=list)
    ended: list[tuple[str, bytes]] = field(default_factory=list)
    minted: list[str] = field(default_factory=list)

    def all(self) -> list[tuple[str, bytes]]:
        return [*self.kept, *self.spilled, *self.broken, *self.ended]


# Whichever of its tests is first pays for the module: a hundred loops for every row.
_WHOLE = (pytest.mark.slow, pytest.mark.whole)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(False, id="every failure in every dialect", marks=_WHOLE),
        pytest.param(True, id="every failure in every row", marks=_WHOLE),
    ],
)
def left(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Left]:
    """What a service has left that heard every way there is, was in trouble, and has ended."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("privacy")
        service, house = _opened(stack, patch, folder, every=request.param)
        yield _heard(service, house, ways(every=request.param))


def _heard(service: Service, house: House, everything: list[Way]) -> Left:
    left = Left()
    house.register()
    house.say([Way(name="marked", answer=answers.chat(), model=MARKED), *everything])
    left.sent = house.sent
    house.say_without_keys()
    house.say_nonsense()
    house.talk()
    left.kept = list(house.places())
    with house.unwritable():
        house.say([Way(name="marked", answer=answers.chat(), model=MARKED), *everything[::9]])
        left.spilled = spills(service.home)
    left.spilled += list(house.files())
    house.without("verdicts", "breakers", "events")
    house.say(everything[::30])
    left.broken = [*house.routes(), *house.pages()]
    house.without("exchanges", "open_calls", "rollouts")
    house.say(everything[::30])
    house.say_nonsense()
    left.broken += [*house.routes(), *house.pages()]
    left.minted = [secret for each in house.rollouts for secret in secrets_of(each)]
    service.stop()
    left.ended = [*house.files(), *house.spans()]
    return left


def _opened(
    stack: ExitStack, patch: pytest.MonkeyPatch, folder: Path, *, every: bool
) -> tuple[Service, House]:
    """The service with all of its outlets, every secret of which is a canary."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": key("aws-id"),
        "AWS_SECRET_ACCESS_KEY": key("aws-secret"),
        "AWS_SESSION_TOKEN": key("aws-session"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
        "OTEL_EXPORTER_OTLP_HEADERS": f"x-token={key('otlp')}",
        "GOOGLE_APPLICATION_CREDENTIALS": str(_account(stack, folder)),
    }.items():
        patch.setenv(name, value)
    home = folder / "home"
    home.mkdir()
    provider = stack.enter_context(Provider(answers.chat()))
    babbler = stack.enter_context(Provider(*_BABBLE))
    talker = stack.enter_context(Talker(answering(*_TALK)))
    collector = stack.enter_context(collecting())
    settings = {
        f"UPSTREAM_{name.upper()}": provider.url for name in (*UPSTREAMS, "bedrock", "vertex")
    }
    settings |= {f"KEY_{name.upper()}": key(f"real-{name}") for name in UPSTREAMS}
    settings["CALLER_KEYS"] = "pass"  # so that agents' own keys travel all the way too
    settings |= {
        f"UPSTREAM_{TALKING.upper()}": talker.url,
        f"UPSTREAM_{BABBLING.upper()}": babbler.url,
        f"UPSTREAM_{AWAY.upper()}": f"http://127.0.0.1:{closed_port()}",
    }
    service = Service(
        home, provider.url, LOG_LEVEL="debug", LOG_FORMAT="json", ADMIN_TOKEN=ADMIN,
        OTLP_ENDPOINT=collector.url, READ_TIMEOUT_S="1", BODY_LIMIT=str(1 << 20), **settings,
    )  # fmt: skip
    stack.enter_context(service)
    return service, House(service, provider, collector, inherited(), every)


def _account(stack: ExitStack, folder: Path) -> Path:
    file = folder / "key.pem"
    command = ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]
    subprocess.run([*command, "-out", str(file)], check=True, capture_output=True)
    account = Account(file.read_text(), folder)
    account.endpoint.plays(
        answers.whole({"error": "invalid_grant", "error_description": ECHO}, 400),
        answers.whole({"access_token": key("google"), "expires_in": 3600}),
    )
    stack.enter_context(account.endpoint)
    account.write(f"{account.endpoint.url}/token")
    return account.file


_TALK: tuple[Sequence[str | bytes], ...] = (
    [event("response.output_text.delta", delta=COMPLETION.text)],
    RESPONSES_FAILED,
    realtime(),
    [event("error", error={"message": ECHO, "code": key("code"), "type": ECHO, "event_id": "e"})],
    [ECHO, b"\x00" + ECHO.encode()],
)


# -- what is walked ----------------------------------------------------------------------------


def test_every_row_of_the_table_is_walked_and_every_dialect_is_spoken() -> None:
    assert len(one_path_a_row()) == len(routes._POSTS)
    assert all(any(row.suffix.search(path) for path in SOCKETS) for row in routes._SOCKETS)
    assert known() - {"openai.realtime"} <= spoken(), "give it a sample in tests/proxy/wire"


def test_a_new_row_fails_until_a_path_leads_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    row = routes._row("/v9/think", others.OPAQUE, "new.think", Kind.INFERENCE)
    monkeypatch.setattr(routes, "_POSTS", (*routes._POSTS, row))
    with pytest.raises(LookupError, match="/v9/think"):
        one_path_a_row()


# -- what is found -----------------------------------------------------------------------------


@dataclass
class Within:
    """A service in this process."""

    url: str
    home: Path
    database: Path


def test_of_one_call_of_each_kind_no_word_and_no_key_is_stored_logged_or_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as stack:
        stack.enter_context(caplog.at_level("INFO", "proxy"))
        found = stack.enter_context(
            serving(tmp_path, upstreams=[name.upper() for name in UPSTREAMS], ADMIN_TOKEN=ADMIN,
                    CALLER_KEYS="pass")
        )  # fmt: skip
        within = Within(str(found.http.base_url).rstrip("/"), tmp_path, Path(found.database))
        house = House(within, found.provider, Collector(0), {}, every=False)
        house.register()
        house.say([Way(name="marked", answer=answers.chat(), model=MARKED), *few()])
        exported = house.runner.get("/rollouts/export").content
    log = "\n".join(caplog.messages).encode()
    left = [("export", exported), ("log", log), *house.rows(), *house.files()]
    assert _shown(left) == ""
    looked = {leak.place for leak in leaks(left, [MARKED])}
    assert {"export", "rows", "file t.db"} <= looked
    assert exported.count(b'"ending"') >= house.sent


def _shown(places: list[tuple[str, bytes]], words: Sequence[str] = WORDS) -> str:
    found = leaks(places, words)
    return "\n".join(f"{leak.place}: {leak.word} ({leak.form}): {leak.around!r}" for leak in found)


def test_nothing_that_was_said_and_no_key_is_kept_or_shown(left: Left) -> None:
    assert _shown(left.kept) == ""


def test_nothing_is_kept_beside_a_database_that_cannot_be_written(left: Left) -> None:
    assert _shown(left.spilled) == ""


def test_nothing_is_told_by_a_service_that_fails_in_ways_nobody_thought_of(left: Left) -> None:
    assert _shown(left.broken) == ""


def test_nothing_is_in_what_an_ended_service_logged_traced_and_left(left: Left) -> None:
    assert _shown(left.ended) == ""


def test_no_minted_key_is_kept_or_shown(left: Left) -> None:
    assert len(left.minted) >= 12
    # Whoever asks about a key by showing it is told about the key that was shown.
    elsewhere = [(place, held) for place, held in left.all() if place != "GET /key/info"]
    assert _shown(elsewhere, left.minted) == ""


# -- that the search looks where things are ----------------------------------------------------


def test_a_model_s_name_is_found_wherever_calls_are_kept_or_shown(left: Left) -> None:
    looked = {
        re.sub(r"[0-9a-f]{20,}|r\d", "*", leak.place.partition("?")[0])
        for leak in leaks(left.all(), [MARKED])
    }
    assert {
        "file journeys.db", "file log", "rows", "GET /rollouts/{rollout_id}/exchanges",
        "GET /rollouts/export", "page /ui/rollouts/*", "command export", "file export.jsonl",
        "spill journeys.db.*.spill", "spans",
    } <= looked  # fmt: skip


def test_every_call_was_recorded_and_failures_were_logged_with_where_they_came_from(
    left: Left,
) -> None:
    found = dict(left.kept)
    exported = [json.loads(line) for line in found["file export.jsonl"].splitlines()]
    calls = [line for line in exported if line.get("record", "exchange") == "exchange"]
    assert len(calls) >= left.sent
    assert {"complete", "cut_upstream", "timed_out", "never_connected"} <= {
        call["ending"] for call in calls
    }
    assert {call["subcategory"] for call in calls} >= set(Subcategory)
    lines = [json.loads(line) for line in dict(left.ended)["file log"].splitlines()]
    assert any("raised" in line and "at" in line for line in lines)

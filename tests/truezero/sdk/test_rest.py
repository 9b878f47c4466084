"""Requests of both clients, page by page where a list has pages, and how answers are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest

from classifier.lane import LOOK_S
from proxy.inbound.connections import ConnectionLimits
from tests import sync_client
from truezero import AsyncClient, Client, ServiceError, models
from truezero.sdk import rest
from truezero.sdk.addresses import present

URL = "http://truezero.test"


class Asked:
    """Requests that a client sent: each gets the next answer, the last one again and again."""

    def __init__(self, *answers: object) -> None:
        self._answers = [json.dumps(answer) for answer in answers]
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        text = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return httpx.Response(200, text=text)

    @property
    def paths(self) -> list[str]:
        """Their methods and paths, as they are on the wire."""
        return [f"{each.method} {each.url.raw_path.decode()}" for each in self.requests]

    @property
    def bodies(self) -> list[Any]:
        """Their bodies; None of one without."""
        return [json.loads(each.content) if each.content else None for each in self.requests]

    def query(self, number: int) -> dict[str, str]:
        """The parameters of one of them."""
        found = parse_qs(self.requests[number].url.query.decode(), keep_blank_values=True)
        return {name: values[0] for name, values in found.items()}


def client(asked: Callable[[httpx.Request], httpx.Response]) -> Client:
    return Client(URL, transport=httpx.MockTransport(asked), keep_outcomes=False)


# --- one source ----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_client_that_blocks_is_made_of_the_one_that_is_awaited() -> None:
    made = {file.name: file.read_text("utf-8") for file in sync_client.MADE.glob("*.py")}
    assert made == sync_client.generated(), "run python -m tests.sync_client"


def test_whatever_is_awaited_blocks_under_the_same_name() -> None:
    def methods(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("__")}

    assert methods(Client) == methods(AsyncClient)


# --- requests ------------------------------------------------------------------------------


def test_a_parameter_that_is_nothing_is_left_out_and_zero_is_not() -> None:
    assert present(after=None, limit=0, text="") == {"limit": 0, "text": ""}


def test_registrations_beyond_the_most_of_one_call_are_made_in_several() -> None:
    item = {"status": 429, "rollout": None, "problem": None}
    asked = Asked({"items": [item] * 10_000}, {"items": [item]})
    with client(asked) as one:
        assert len(one.register_many([{"id": f"r{n}"} for n in range(10_001)])) == 10_001
        assert one.register_many([]) == []
    first, second = asked.bodies
    assert len(first["rollouts"]) == 10_000
    assert second == {"rollouts": [{"id": "r10000"}]}


def test_groups_are_asked_for_page_by_page() -> None:
    asked = Asked(
        {"items": [], "ended": False, "next": "t9"}, {"items": [], "ended": True, "next": None}
    )
    with client(asked) as one:
        assert one.groups("b", min_valid=2, settled=True) == []
    wanted = {"min_valid": "2", "settled": "true", "limit": "1000"}
    assert asked.paths[0].startswith("GET /batches/b/groups?")
    assert [asked.query(0), asked.query(1)] == [wanted, {**wanted, "after": "t9"}]


def test_a_comparison_is_asked_for_page_by_page() -> None:
    side = {
        "batch": "a", "total": 1, "scoreable": 1, "scored": 1, "coverage": 1.0,
        "score_effective": 1.0, "score_ci": None,
    }  # fmt: skip
    score = {"score": 1.0, "measured": 1, "repeats": 1, "rollout_ids": ["r"]}

    def page(task: str, following: str | None) -> dict[str, object]:
        change = {"task": task, "change": "unchanged", "difference": 0.0, "a": score, "b": score}
        unknown = dict.fromkeys(("score_a", "score_b", "difference", "difference_ci"))
        return {
            "a": side, "b": side, "compared": 1, **unknown, "counts": {"unchanged": 2},
            "without_task": 0, "tasks": [change], "next": following,
        }  # fmt: skip

    asked = Asked(page("t1", "t1"), page("t2", None))
    with client(asked) as one:
        compared = one.compare("x/y", "b")
    assert ([each.task for each in compared.tasks], compared.next) == (["t1", "t2"], None)
    assert asked.query(0) == {"a": "x/y", "b": "b", "limit": "10000"}
    assert asked.query(1) == {**asked.query(0), "after": "t1"}


def test_what_to_run_again_is_asked_for_page_by_page() -> None:
    def group(cause: str, count: int, *names: str) -> dict[str, object]:
        items = [
            {"task": name, "repeat": None, "rollout_id": name, "attempt": 1, "after_s": None}
            for name in names
        ]
        return {"cause": cause, "fix": None, "count": count, "items": items}

    def page(following: str | None, *groups: dict[str, object]) -> dict[str, object]:
        none: dict[str, object] = {"count": 0, "groups": []}
        kinds: dict[str, object] = dict.fromkeys(models.RERUN_NAMES, none)
        kinds["transient"] = {"count": 9, "groups": groups}
        return {"batch": "a/b", "running": 4, **kinds, "next": following}

    asked = Asked(
        page("n", group("c", 5, "t1"), group("gone", 1)),
        page(None, group("new", 1, "t4"), group("c", 5, "t2", "t3")),
    )
    with client(asked) as one:
        found = one.rerun("a/b")
    assert asked.paths == [
        "GET /batches/a%2Fb/rerun?limit=1000", "GET /batches/a%2Fb/rerun?limit=1000&after=n"
    ]  # fmt: skip
    told = [(each.cause, each.count, [item.task for item in each.items])
            for each in found.transient.groups]  # fmt: skip
    assert told == [("c", 3, ["t1", "t2", "t3"]), ("new", 1, ["t4"])]
    assert (found.transient.count, found.fix_first.count, found.running) == (4, 0, 4)
    assert found.next is None


def test_usage_is_asked_for_by_batch() -> None:
    sums = dict.fromkeys(models.UsageSums.model_fields, 0)
    asked = Asked({"batch": "b", "by": ["role", "task"], "items": [], "sum": sums})
    with client(asked) as one:
        one.usage("b", by=("role", "task"))
    assert asked.paths == ["GET /batches/b/usage?by=role%2Ctask"]


# --- answers -------------------------------------------------------------------------------


def test_a_response_is_read_as_its_model_or_not_at_all() -> None:
    def read(body: bytes) -> models.Alive:
        return rest.parse(models.Alive, body, path="/healthz", url=URL)

    assert read(b'{"status": "ok", "version": "1.2.3"}').version == "1.2.3"
    for body, sentence, code in (
        (b"<html>", f"{URL} is not a truezero service", "other_service"),
        (
            b'{"status": "ok"}',
            "to /healthz does not match truezero .* [(]version[)]",
            "other_version",
        ),
        (b"[]", "[(]whole body[)]", "other_version"),
    ):
        with pytest.raises(ServiceError, match=sentence) as caught:
            read(body)
        assert caught.value.code == code


def test_a_connection_is_kept_for_longer_than_a_thread_waits_and_shorter_than_the_service() -> None:
    kept_s = rest.connection("http://127.0.0.1:9", None, 1.0)["limits"].keepalive_expiry
    assert 2 * LOOK_S < kept_s < ConnectionLimits().idle_s / 2


@pytest.mark.parametrize(
    ("ask", "errors", "asked"),
    [
        ("status", [httpx.RemoteProtocolError("Server disconnected")], 2),
        ("status", [httpx.ReadError("reset"), httpx.ReadError("reset")], None),
        ("status", [httpx.ConnectError("refused")], None),
        ("take_turn", [httpx.ReadError("reset")], None),
    ],
)
def test_a_get_on_a_connection_just_being_closed_is_asked_once_more_and_nothing_else_is(
    ask: str, errors: list[httpx.HTTPError], asked: int | None
) -> None:
    waiting, requests = iter(errors), 0
    report = {"word": "unknown", "at": 0.0, "lanes": 0, "items": []}

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal requests
        requests += 1
        if (error := next(waiting, None)) is not None:
            raise error
        return httpx.Response(200, json=report, request=request)

    with Client("http://127.0.0.1:9", transport=httpx.MockTransport(answer)) as one:
        if asked is None:
            with pytest.raises(ServiceError, match="cannot reach"):
                getattr(one, ask)()
            assert requests == len(errors)
        else:
            getattr(one, ask)()
            assert requests == asked

"""A service is asked once whether it answers; attempts are numbered after those that it has."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.journeys.harnesses import Silent
from tests.truezero import driving
from tests.waiting import until
from truezero import Client, ServiceError
from truezero.integrations.attempts import Contact, check_service
from truezero.sdk.rest import next_attempts


def test_attempts_go_on_where_an_earlier_process_stopped(url: str) -> None:
    with Client(url) as client:
        for expected in range(3):
            following = next_attempts(client.rollouts(batch="counted", task="t"))
            number = following.get(("t", None), 0)
            assert number == expected
            client.register(batch="counted", task="t", attempt=number)
        client.register(batch="counted", task="uncounted")
        following = next_attempts(client.rollouts(batch="counted", task="uncounted"))
        assert following == {("uncounted", None): 1}


@pytest.mark.parametrize("busy_s", [0.0, 0.4])
def test_a_silent_program_is_waited_for_once_and_no_longer_than_told(
    busy_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = threading.Thread.join

    def late(thread: threading.Thread, timeout: float | None = None) -> None:
        time.sleep(busy_s)
        join(thread, timeout)

    with Silent() as silent:
        monkeypatch.setattr(threading.Thread, "join", late)
        with pytest.raises(ServiceError) as failed:
            check_service(silent.url, within_s=0.2)
        until(lambda: silent.visits)
    assert silent.visits == 1
    assert failed.value.code == "no_answer"
    assert f"{silent.url} did not answer within 0.2 s" in str(failed.value)


def test_a_wrong_token_is_seen_before_any_call(tmp_path: Path) -> None:
    with driving.service(tmp_path, admin_token="t" * 20) as (url, *_):
        check_service(url, "t" * 20)
        with pytest.raises(ServiceError, match="the token is wrong or missing"):
            check_service(url, "wrong")


def test_all_who_wait_for_a_service_that_is_away_greet_it_once() -> None:
    said: list[str] = []
    greeted: list[str] = []
    gate = threading.Event()

    def away() -> None:
        greeted.append("here")
        gate.wait()
        raise ServiceError("it is away")

    contact = Contact(said.append, check=away)
    with ThreadPoolExecutor(8) as crowd:
        waiting = [crowd.submit(contact.made) for _ in range(8)]
        gate.set()
    assert [each.result() for each in waiting] == [False] * 8
    assert (greeted, said) == (["here"], ["it is away"])


def test_a_service_that_answers_may_leave_later(url: str) -> None:
    said: list[str] = []
    contact = Contact(said.append, check=partial(check_service, url))
    assert (contact.made(), contact.made(), said) == (True, True, [])
    contact.leave("it is gone")
    contact.leave("it is gone again")
    assert (contact.made(), said) == (False, ["it is gone"])

"""`truezero outcomes`: what was kept while a service was away is listed, delivered and compared."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import httpx
import pytest

from tests import forked
from tests.fakes.balancer import Balancer, Page
from tests.truezero.cli.test_cli import environment, truezero
from tests.truezero.driving import call, service
from truezero import Client
from truezero.sdk.outcomes import KeptOutcome, keep

TOKEN = "t0ken-of-the-operator"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with service(tmp_path) as (url, _, _):
        yield url


def kept(home: Path, service: str, rollout: str, at: float = 1_790_000_000.0, **facts: Any) -> Path:
    """An outcome as a harness left it, in the folder where `truezero` looks by itself."""
    outcome = {"status": "success", "prompts_executed": 1, **facts}
    one = KeptOutcome(service=service, rollout_id=rollout, kept_at=at, outcome=outcome)
    return keep(home / ".truezero" / "outcomes", one)


def ran(url: str, rollout: str, key: str = "sk-good", **facts: Any) -> None:
    """A rollout whose agent has called, and whose outcome has not come."""
    with Client(url) as client:
        registered = client.register(id=rollout, batch="b", task=rollout, **facts)
    call(registered.base_urls["openai"], key)


def deliver(home: Path, url: str, *words: str, **more: str) -> CompletedProcess[str]:
    return truezero("outcomes", "deliver", *words, folder=home, TRUEZERO_URL=url, **more)


def test_nothing_kept_is_nothing_to_do_and_asks_no_service(tmp_path: Path) -> None:
    place = tmp_path / ".truezero" / "outcomes"
    for words in ([], ["deliver"]):
        said = truezero("outcomes", *words, folder=tmp_path)
        assert (said.returncode, said.stdout, said.stderr) == (
            0, f"no outcome is kept in {place}\n", "",
        )  # fmt: skip
        said = truezero("outcomes", *words, "--json", folder=tmp_path)
        assert (said.returncode, said.stdout) == (0, "[]\n")


def test_what_is_kept_is_listed(tmp_path: Path) -> None:
    kept(tmp_path, "http://a", "night/2", 1_790_000_060, rewards={"pass": 0.0}, task="t", batch="b")
    kept(tmp_path, "http://a", "night/1", 1_790_000_000, status="agent_error")
    file = tmp_path / ".truezero" / "outcomes" / "half.json"
    file.write_text("{")
    said = truezero("outcomes", folder=tmp_path)
    assert said.returncode == 0, said.stderr
    head, broken, first, second = said.stdout.splitlines()
    assert head.split()[:4] == ["rollout", "batch", "task", "reported"]
    assert "half.json" in broken
    assert first.split() == [
        "night/1", "–", "–", "agent_error", "2026-09-21", "14:13:20", "http://a",
    ]  # fmt: skip
    assert second.split()[:5] == ["night/2", "b", "t", "{'pass':", "0.0}"]
    listed = json.loads(truezero("outcomes", "--json", folder=tmp_path).stdout)
    assert [each["rollout_id"] for each in listed] == [None, "night/1", "night/2"]
    assert listed[2]["outcome"]["rewards"] == {"pass": 0.0}
    rows = truezero("outcomes", "--csv", folder=tmp_path).stdout.splitlines()
    assert rows[0] == "rollout_id,batch,task,status,reported,kept_at,service,file"
    assert rows[1] == f",,,,,,,{file}"
    assert rows[3].startswith("night/2,b,t,success,pass=0,2026-09-21T14:14:20.000Z,http://a,")
    elsewhere = truezero("outcomes", "--folder", str(file.parent), "--json", folder=Path("/"))
    assert json.loads(elsewhere.stdout) == listed


def test_what_is_delivered_says_what_counts_now_and_why_not(url: str, tmp_path: Path) -> None:
    for number, (rollout, key) in enumerate((("solved", "sk-good"), ("dead", "sk-dead"))):
        ran(url, rollout, key)
        reward = 1.0 if rollout == "solved" else 0.0
        kept(tmp_path, url, rollout, number, rewards={"reward": reward})
    ran(url, "crashed")
    kept(tmp_path, url, "crashed", 3.0, status="agent_error", error="KeyError")
    said = deliver(tmp_path, url)
    assert (said.returncode, said.stderr) == (0, "")
    solved, dead, crashed, last = said.stdout.splitlines()
    assert solved.startswith("solved: counts: the model answered 1 of 1 call (healthy, 1 call")
    assert solved.endswith("): reward=1 counts, as reported")
    assert dead.startswith("dead: does not count: the key was refused (auth, 401 on 1 of 1 call)")
    assert dead.endswith("): reported reward=0, its result has none")
    assert crashed.endswith("): no reward was reported")
    assert last.startswith("3 of 3 delivered, 1 with another reward than reported; ")
    assert list((tmp_path / ".truezero" / "outcomes").iterdir()) == []
    with Client(url) as client:
        assert client.result("solved").rewards == {"reward": 1.0}
        assert client.result("dead").rewards is None
        assert client.result("crashed").status == "agent_error"


def test_a_rejected_outcome_stays_and_keeps_no_other_back(url: str, tmp_path: Path) -> None:
    ran(url, "taken")
    with Client(url) as client:
        client.report("taken", rewards=0.0)
    ran(url, "good")
    left = [
        kept(tmp_path, url, "taken", 1.0, rewards={"reward": 1.0}),
        kept(tmp_path, url, "invalid", 2.0, tool_calls=-1),
        kept(tmp_path, url, "newer", 3.0, unheard_of=1),
        kept(tmp_path, "http://elsewhere:1", "theirs", 4.0),
    ]
    kept(tmp_path, url, "good", 5.0, rewards={"reward": 1.0})
    left.append(tmp_path / ".truezero" / "outcomes" / "half.json")
    left[-1].write_text("{")
    said = deliver(tmp_path, url)
    assert said.returncode == 1
    place = tmp_path / ".truezero" / "outcomes"
    assert said.stderr == f"truezero: 5 of 6 outcomes still kept in {place}\n"
    half, taken, invalid, newer, theirs, good, last = said.stdout.splitlines()
    assert half == f"not delivered: it is no outcome that was kept; kept in {left[-1]}"
    different = "not delivered: rollout 'taken' already has a different outcome"
    assert taken == f"taken: {different}; kept in {left[0]}"
    assert invalid.startswith("invalid: not delivered: tool_calls: ")
    assert newer.startswith("newer: not delivered: unheard_of: ")
    told = "it is for http://elsewhere:1: pass --url http://elsewhere:1, or --from"
    assert told in theirs
    assert good.startswith("good: counts: ")
    assert last.startswith("1 of 6 delivered, 0 with another")
    assert sorted(place.iterdir()) == sorted(left)
    again = json.loads(deliver(tmp_path, url, "--json").stdout)
    assert [(each["rollout_id"], each["delivered"]) for each in again] == [
        (None, False), ("taken", False), ("invalid", False), ("newer", False), ("theirs", False),
    ]  # fmt: skip
    assert again[1]["problem"] == "rollout 'taken' already has a different outcome"


def test_a_token_goes_to_no_service_but_the_one_that_is_named(url: str, tmp_path: Path) -> None:
    """A file may name any address: an agent may have written it."""
    with Balancer(url) as other:
        kept(tmp_path, other.url, "theirs")
        said = deliver(tmp_path, url, TRUEZERO_ADMIN_TOKEN=TOKEN)
        assert (said.returncode, other.paths) == (1, [])
        moved = deliver(tmp_path, url, "--from", other.url)
        assert (moved.returncode, other.paths) == (0, [])
    with Client(url) as client:
        assert client.result("theirs").status == "success"


def test_a_service_that_is_away_is_one_sentence_and_loses_nothing(url: str, tmp_path: Path) -> None:
    with Balancer(url) as balancer:
        for number in range(3):
            ran(url, f"r{number}")
            kept(tmp_path, balancer.url, f"r{number}", float(number))
        balancer.page = Page(502)
        said = deliver(tmp_path, balancer.url)
        assert (said.returncode, said.stdout, len(said.stderr.splitlines())) == (1, "", 1)
        assert f"the truezero service at {balancer.url} is away" in said.stderr

        def leave(path: str) -> None:
            balancer.page = Page(503) if "r1" in path else balancer.page

        balancer.page, balancer.before = None, leave
        balancer.paths.clear()
        said = deliver(tmp_path, balancer.url)
        assert said.returncode == 1
        assert said.stdout.count("is away") == 2
        assert said.stderr.startswith("truezero: 2 of 3 outcomes still kept")
        assert not [path for path in balancer.paths if "r2" in path], "it is asked once"
        balancer.page, balancer.before = None, lambda _path: None
        assert deliver(tmp_path, balancer.url).returncode == 0


@pytest.mark.slow
def test_two_processes_deliver_one_folder_at_once(url: str, tmp_path: Path) -> None:
    names = [f"r{number}" for number in range(20)]
    for number, name in enumerate(names):
        ran(url, name)
        kept(tmp_path, url, name, float(number), rewards={"reward": 1.0})
    with Balancer(url) as balancer:
        both = threading.Barrier(2, timeout=60)
        reached: list[str] = []

        def together(path: str) -> None:
            """Hold each process at its first outcome until the other has come so far."""
            if path.endswith("/outcome") and len(reached) < 2:
                reached.append(path)
                both.wait()

        balancer.before = together
        words = ["outcomes", "deliver", "--json", "--from", url, "--url", balancer.url]
        processes = [
            forked.start(
                *words, cwd=tmp_path, env=environment(),
                stdout=(tmp_path / f"{name}.out").open("wb"),
                stderr=(tmp_path / f"{name}.err").open("wb"),
            )
            for name in ("one", "other")
        ]  # fmt: skip
        codes = [process.wait(120) for process in processes]
    assert codes == [0, 0], [(tmp_path / f"{name}.err").read_text() for name in ("one", "other")]
    assert reached == ["/rollouts/r0/outcome"] * 2
    delivered = [json.loads((tmp_path / f"{name}.out").read_text()) for name in ("one", "other")]
    assert all(each["delivered"] and not each["differs"] for part in delivered for each in part)
    assert {each["rollout_id"] for part in delivered for each in part} == set(names)
    assert list((tmp_path / ".truezero" / "outcomes").iterdir()) == []
    answers = [httpx.get(f"{url}/rollouts/{name}/result").json()["rewards"] for name in names]
    assert answers == [{"reward": 1.0}] * 20

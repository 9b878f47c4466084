"""The commands that read a batch, on a real service: what they print and how they end."""

from __future__ import annotations

import contextlib
import csv
import importlib
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import httpx
import pytest

from tests import forked
from tests.truezero.driving import call, service
from truezero import Client, Rollout
from truezero.cli import COMMANDS


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service that knows a mixed batch and a clean one."""
    folder = tmp_path_factory.mktemp("service")
    with service(folder, BREAKER_THRESHOLD="2") as (address, _, _), Client(address) as client:
        fill(client)
        yield address


KEYS = {"won": "sk-good", "lost": "sk-good", "down": "sk-down", "dead-0": "sk-dead",
        "dead-1": "sk-dead", "held": "sk-good"}  # fmt: skip


def fill(client: Client) -> None:
    def agent(task: str, rollout: Any) -> float | None:
        if task == "silent":
            return 0.0
        call(rollout.env["OPENAI_BASE_URL"], KEYS.get(task, "sk-good"))
        return float(task != "lost")

    lane = {"model": "gpt-5", "upstream": "openai"}
    mixed = client.batch("mixed/1", model=lane["model"], upstream=lane["upstream"])
    mixed.run(KEYS, agent, concurrency=1, max_wait_s=0)
    client.batch("other").run(["silent", "down"], agent, max_wait_s=0)
    client.batch("clean").run(["a", "b"], agent)


def truezero(*words: str, url: str, **more: str) -> subprocess.CompletedProcess[str]:
    return forked.run(*words, cwd=forked.ROOT, env=environment(TRUEZERO_URL=url, **more))


def environment(**more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if "TRUEZERO" not in name}
    return {**clean, "COLUMNS": "100", **more}


@pytest.mark.slow
def test_a_batch_says_what_it_stands_on(url: str) -> None:
    done = truezero("batch", "mixed/1", url=url)
    assert done.returncode == 0, done.stderr
    assert "not valid" in done.stdout
    assert "6, 0 running, 1 skipped" in done.stdout
    said = " ".join(done.stdout.split())
    assert (
        "reported 0.800 score 0.500, 95 % interval 0.095 to 0.905 coverage 2 of 6 measured (33.3%)"
    ) in said
    assert "; truezero list --batch mixed/1 --false-one" in said
    assert "2 auth:401" in done.stdout
    assert "breaker open on openai/gpt-5/key-" in done.stdout
    assert "2 rollouts in a row failed with auth:401" in done.stdout
    assert "run again: down after " in done.stdout


def test_scores_that_no_model_earned_are_listed_counted_and_said(tmp_path: Path) -> None:
    with service(tmp_path) as (url, _, _):
        _says_what_no_model_earned(url)


def _says_what_no_model_earned(url: str) -> None:
    with Client(url) as client:
        batch = client.batch("passed", model="gpt-5", reward_range=(-1, 1))
        batch.run({"won": "sk-good", "dead": "sk-dead"}, _called)
        (dead,) = client.rollouts(batch="passed", unearned=True)
        assert client.summary("passed").unearned == 1
    listed = truezero("list", "--batch", "passed", "--unearned", "--json", url=url)
    assert [each["task"] for each in json.loads(listed.stdout)] == ["dead"]
    told = truezero("verdict", dead.id, url=url).stdout
    assert (
        "invalid unearned: reward 0 without an answer: the only call to the model under test was "
        "not answered"
    ) in " ".join(told.split())
    said = " ".join(truezero("batch", "passed", url=url).stdout.split())
    assert "1 score that no model earned: truezero list --batch passed --unearned" in said
    checked = truezero("check", "passed", url=url)
    assert "no model earned the score of 1 rollout (unearned)" in checked.stdout


def _called(task: str, rollout: Any) -> float:
    call(rollout.env["OPENAI_BASE_URL"], {"won": "sk-good"}.get(task, "sk-dead"))
    return 0.0  # above the least of its batch


def test_groups_say_what_counts_and_what_is_lost(url: str) -> None:
    done = truezero("groups", "clean", url=url)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["task", "measured", "baseline", "std", "run", "again"]
    assert ["a", "1", "of", "1", "1.000", "unknown", "–", "drop"] in lines
    told = json.loads(truezero("groups", "clean", "--json", "--min-valid", "1", url=url).stdout)
    asked = {"min_valid": 1}
    assert told == httpx.get(f"{url}/batches/clean/groups", params=asked).json()["items"]
    assert [one["drop"] for one in told] == [False, False]
    given = truezero("groups", "clean", "--method", "rloo", url=url)
    assert (given.returncode, given.stdout) == (0, done.stdout)
    assert given.stderr.startswith("warning: --method is gone, and has no effect")


def test_what_to_run_again_is_a_list_ids_or_commands(url: str) -> None:
    done = truezero("rerun", "mixed/1", url=url)
    assert done.returncode == 0, done.stderr
    assert "fix_first: 2 (fix first, then run again)" in done.stdout
    assert "replace the API key" in done.stdout
    told = json.loads(truezero("rerun", "mixed/1", "--json", url=url).stdout)
    assert told == httpx.get(f"{url}/batches/mixed%2F1/rerun").json()
    (down,) = told["transient"]["groups"][0]["items"]
    ids = truezero("rerun", "mixed/1", "--ids", url=url).stdout
    assert ids == f"{down['rollout_id']}\n"
    both = ("--only", "fix_first", "--only", "skipped")
    assert len(truezero("rerun", "mixed/1", "--ids", *both, url=url).stdout.splitlines()) == 3
    assert "    down after " in done.stdout
    command = truezero("rerun", "mixed/1", "--command", "--only", "transient", url=url).stdout
    (_, line) = command.splitlines()
    assert line == (
        "truezero run --batch mixed/1 --task down --model gpt-5 --upstream openai"
        f" --url {url} -- $AGENT"
    )
    given = truezero("rerun", "mixed/1", "--command", "--", "./agent.sh", "--fast", url=url).stdout
    first = next(line for line in given.splitlines() if not line.startswith("#"))
    assert first == f"truezero breaker reset mixed/1 --url {url}"
    tasks = [line.split()[5] for line in given.splitlines() if line.endswith("./agent.sh --fast")]
    assert tasks == ["down", "dead-0", "dead-1", "held"]
    wrong = truezero("rerun", "mixed/1", "--", "./agent.sh", url=url)
    assert (wrong.returncode, wrong.stdout) == (2, "")


def rows(*words: str, url: str) -> list[dict[str, str]]:
    done = truezero(*words, "--csv", url=url)
    assert (done.returncode, done.stderr) in ((0, ""), (75, ""), (76, "")), words
    return list(csv.DictReader(done.stdout.splitlines()))


def told(*words: str, url: str) -> Any:
    return json.loads(truezero(*words, "--json", url=url).stdout)


def test_batches_are_csv_with_reported_and_measured_scores(url: str) -> None:
    batches = {row["batch"]: row for row in rows("batches", url=url)}
    mixed, item = batches["mixed/1"], told("batches", url=url)[-1]
    assert item["batch"] == "mixed/1"
    assert (mixed["scored"], mixed["repeats_planned"], mixed["valid"]) == ("2", "6", "false")
    for name in ("score_reported", "score_effective", "coverage"):
        assert float(mixed[name]) == item[name], name
    low, high = item["score_ci"]
    assert (float(mixed["score_ci_low"]), float(mixed["score_ci_high"])) == (low, high)
    zeros = item["zeros"]
    assert mixed["zeros_not_measured"] == str(zeros["not_measured"])
    began = datetime.fromisoformat(mixed["last_at"])
    assert began.timestamp() == pytest.approx(item["last_at"], abs=0.001)
    assert len(rows("batches", "--limit", "1", url=url)) == 1


def test_tasks_are_csv_a_line_each(url: str) -> None:
    groups = rows("groups", "mixed/1", url=url)
    assert [row["task"] for row in groups] == sorted(KEYS)
    assert {row["task"] for row in groups if row["measured"] == "1"} == {"won", "lost"}
    compared = rows("compare", "mixed/1", "other", url=url)
    (down,) = (row for row in compared if row["task"] == "down")
    assert (down["change"], down["score_a"], down["measured_b"]) == ("unmeasured_both", "", "0")


def test_what_to_run_again_is_csv_of_all_lists_or_of_some(url: str) -> None:
    again = rows("rerun", "mixed/1", url=url)
    assert {(row["list"], row["task"]) for row in again} == {
        ("transient", "down"), ("skipped", "held"),
        ("fix_first", "dead-0"), ("fix_first", "dead-1"),
    }  # fmt: skip
    assert "replace the API key" in again[1]["fix"]
    (only,) = rows("rerun", "mixed/1", "--only", "transient", url=url)
    assert only["task"] == "down"


def test_the_status_is_csv_of_every_lane(url: str) -> None:
    lanes = rows("status", url=url)
    items = told("status", url=url)["items"]
    assert [row["word"] for row in lanes] == [item["word"] for item in items]
    assert [row["calls"] for row in lanes] == [str(item["calls"]) for item in items]
    assert {row["upstream"] for row in lanes} == {"openai"}
    answered = [row for row in lanes if row["answered_at"]]
    assert answered
    assert all(datetime.fromisoformat(row["answered_at"]).tzinfo for row in answered)


def test_every_command_that_prints_a_list_prints_csv() -> None:
    """A verdict's calls are its proof, no list of their own."""
    words = {
        name: function for commands in COMMANDS.values() for name, (function, _) in commands.items()
    }
    for name, function in words.items():
        module = importlib.import_module(f"truezero.cli.{function.partition(':')[0]}")
        prints = {"print_list", "print_columns"} & vars(module).keys()
        if prints and name != "verdict":
            command = getattr(module, function.partition(":")[2])
            assert "as_csv" in {each.name for each in command.params}, name


def test_a_check_fails_where_something_is_no_measurement(url: str) -> None:
    done = truezero("check", "mixed/1", url=url)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert any(line.startswith("dead-0: does not count: the key was refused") for line in lines)
    assert lines[-2].startswith("breaker open on openai/gpt-5/key-")
    assert lines[-1] == "mixed/1: not a valid measurement"
    assert lines[-3] == "score 0.500, as the harness reported it 0.800"  # 1 of 2, 4 of 5


def test_a_check_passes_where_all_is_measured(url: str) -> None:
    done = truezero("check", "clean", url=url)
    assert (done.returncode, done.stdout) == (
        0,
        "score 1.000, as the harness reported it 1.000\nclean: valid\n",
    )
    assert done.stderr == f"{url}/ui/batches/clean\n"
    as_json = truezero("check", "clean", "--json", url=url)
    untested = dict.fromkeys(("exclusion_bias", "exclusion_p", "exclusion_fisher_p"))
    clean: dict[str, object] = {
        "batch": "clean", "valid": True, "repeats": 2, "tries": 2, "lines": [], "lines_total": 0,
        **untested, "score_effective": 1.0, "score_reported": 1.0,
    }  # fmt: skip
    assert json.loads(as_json.stdout) == clean


def test_a_check_that_nobody_answers_has_an_exit_code_of_its_own() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nobody listens
        away = f"http://127.0.0.1:{closed.getsockname()[1]}"
        for form in ((), ("--json",)):
            done = truezero("check", "clean", *form, url=away)
            assert (done.returncode, done.stdout) == (4, "")
            assert done.stderr.startswith(f"truezero: cannot reach a truezero service at {away}")
        assert truezero("check", url=away).returncode == 2
        assert truezero("check", "clean", "--jsno", url=away).returncode == 2


def test_a_batch_that_does_not_exist_is_one_sentence(url: str) -> None:
    for words, code in ((("batch", "none"), 1), (("check", "none"), 3), (("watch", "none"), 1),
                        (("export", "--batch", "none"), 1)):  # fmt: skip
        done = truezero(*words, url=url)
        assert (done.returncode, done.stdout) == (code, ""), words
        assert done.stderr == "truezero: batch 'none' does not exist\n", words


def test_a_wrong_token_is_one_sentence(tmp_path: Path) -> None:
    with service(tmp_path, ADMIN_TOKEN="t0ken") as (address, _, _):
        for words in (("batch", "b"), ("check", "b"), ("watch", "b"), ("export",),
                      ("verdict", "r"), ("run", "--", "true")):  # fmt: skip
            done = truezero(*words, url=address, TRUEZERO_ADMIN_TOKEN="other")
            assert (done.returncode, done.stdout) == (4 if "check" in words else 1, ""), words
            assert len(done.stderr.splitlines()) == 1, words
            assert "the token is wrong or missing: set TRUEZERO_ADMIN_TOKEN" in done.stderr, words


# --- export --------------------------------------------------------------------------------


def test_an_export_can_be_of_one_batch_and_goes_to_standard_output(url: str) -> None:
    done = truezero("export", "--batch", "clean", url=url)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["record"] for record in records] == ["rollout", "outcome", "exchange"] * 2
    assert {record.get("batch", "clean") for record in records} == {"clean"}
    assert records[1]["rewards"] == {"reward": 1.0}


def test_an_export_that_fails_leaves_no_file_to_believe(url: str, tmp_path: Path) -> None:
    where = tmp_path / "no" / "folder.jsonl"
    done = truezero("export", "--out", str(where), url=url)
    assert done.returncode == 1
    assert done.stderr == f"truezero: cannot write {where}: No such file or directory\n"
    gone = truezero("export", "--batch", "none", "--out", str(tmp_path / "x"), url=url)
    assert gone.returncode == 1
    assert list(tmp_path.iterdir()) == []


# --- watch ---------------------------------------------------------------------------------


def test_watching_prints_each_event_as_a_line_and_ends_well_with_ctrl_c(url: str) -> None:
    with Client(url) as client, watching(client, "--json") as (rollout, process, said):
        first = json.loads(said.readline())
        rollout.finish(rewards=0.0)
        last = first
        while last["event"] != "verdict_given":
            last = json.loads(said.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert (first["event"], first["rollout_id"]) == ("exchange_failed", rollout.id)
    assert (first["subcategory"], last["health"]) == ("auth", "api_error")
    assert last["id"] > first["id"]


@contextlib.contextmanager
def watching(client: Client, *words: str) -> Iterator[tuple[Rollout, forked.Process, IO[str]]]:
    """A rollout that fails again and again until someone watches, the one who does, its output."""
    seen = threading.Event()
    read, write = os.pipe()
    with client.batch("live").rollout("t") as rollout, os.fdopen(read, encoding="utf-8") as said:
        env = environment(TRUEZERO_URL=client.url)
        process = forked.start("watch", "live", *words, cwd=forked.ROOT, env=env, stdout=write)
        os.close(write)

        def fail() -> None:
            while not seen.wait(0.05):
                call(rollout.env["OPENAI_BASE_URL"], "sk-dead")

        failing = threading.Thread(target=fail)
        failing.start()
        try:
            yield rollout, process, said
        finally:
            seen.set()
            failing.join()
            process.kill()
            process.wait(60)

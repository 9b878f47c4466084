"""`truezero run` as people use it: real processes, real signals, a real terminal."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import forked
from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Provider, closed_port
from tests.journeys.service import ROOT, Service
from tests.waiting import until
from truezero.runner.run import _GRACE_S, _WATCH_S

FAILURES = answers.FAILURES[Api.CHAT]

# An agent like many: it asks, says what it got, and ends as it is told.
AGENT = """
import json, os, sys, time, urllib.error, urllib.request
def ask():
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps({"model": "gpt-5", "messages": []}).encode(),
        {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"],
         "content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()  # who leaves before has no answer
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
"""


@pytest.fixture
def nowhere() -> str:
    return f"http://127.0.0.1:{closed_port()}"


def environment(url: str, provider: Provider | None = None, **more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if "TRUEZERO" not in name}
    clean |= {"TRUEZERO_URL": url, "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "sk-own"}
    if provider is not None:
        clean["TRUEZERO_UPSTREAM_OPENAI"] = provider.url
    return clean | more


def run(
    *words: str, url: str, provider: Provider | None = None, stdin: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    env = environment(url, provider, **more)
    return forked.run("run", *words, cwd=ROOT, env=env, given=stdin)


def python(text: str) -> tuple[str, ...]:
    return ("--", sys.executable, "-S", "-c", AGENT + text)


def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])
    return found


def test_an_agents_input_output_and_exit_code_are_its_own(
    service: Service, provider: Provider, rollout: str
) -> None:
    text = "print(sys.argv[1:], sys.stdin.read(), ask()); print('oops', file=sys.stderr)"
    facts = ("--id", rollout, "--batch", "runs", "--task", "t1", "--repeat", "2",
             "--model", "gpt-5")  # fmt: skip
    done = run(*facts, *python(text), "--json", "-h", "--id", url=service.url, stdin="hello")
    assert (done.returncode, done.stdout) == (0, "['--json', '-h', '--id'] hello 200\n")
    first, last = done.stderr.splitlines()
    assert first == "oops"
    assert last.startswith("truezero: ")
    assert "counts: the model answered 1 of 1 call (healthy, 1 call, 31 in, 5 out" in last
    assert provider.requests[0].header("authorization") == "Bearer sk-own"
    result = service.get(f"/rollouts/{rollout}/result")
    assert (result["status"], result["termination_reason"]) == ("success", "agent_stop")
    assert (result["batch"], result["task"], result["model"]) == ("runs", "t1", "gpt-5")
    assert (result["repeat"], result["prompts_executed"]) == (2, 1)


@pytest.mark.parametrize(
    ("words", "upstream"),
    [
        (("--upstream", "vllm", "--", "./claude"), "vllm"),
        (("--", "./claude"), "anthropic"),
        (("--", "./any"), None),  # it may call several
    ],
)
def test_a_rollout_is_registered_for_the_upstream_of_its_agent(
    service: Service, rollout: str, tmp_path: Path, words: tuple[str, ...], upstream: str | None
) -> None:
    for name in ("claude", "any"):
        file = tmp_path / name
        file.write_text("#!/bin/sh\n", "utf-8")
        file.chmod(0o700)
    command = (*words[:-1], str(tmp_path / words[-1]))
    assert run("--id", rollout, *command, url=service.url).returncode == 77
    items = service.get(f"/rollouts?text={rollout}")["items"]
    assert [item["upstream"] for item in items if item["id"] == rollout] == [upstream]


@pytest.mark.parametrize(("fault", "code"), [(Fault.AUTH, 76), (Fault.RATE_LIMIT, 75)])
def test_a_failure_that_the_agent_swallows_is_the_exit_code(
    service: Service, provider: Provider, fault: Fault, code: int
) -> None:
    provider.plays(FAILURES[fault])
    done = run("--json", *python("ask(); ask()"), url=service.url)
    assert done.returncode == code
    report = told(done)
    assert (report["exit_code"], report["agent_exit_code"]) == (code, 0)
    assert report["verdict"]["subcategory"] == fault.value
    assert report["result"]["rewards"] is None


def test_a_command_that_is_not_there_is_recorded_as_no_setup(
    service: Service, rollout: str
) -> None:
    done = run("--id", rollout, "--", "no-such-agent", "--key", "sk-secret", url=service.url)
    assert (done.returncode, done.stdout) == (127, "")
    assert "(not_judged, 0 calls): no-such-agent: command not found" in done.stderr
    result = service.get(f"/rollouts/{rollout}/result")
    assert (result["status"], result["prompts_executed"]) == ("setup_failed", 0)
    assert "sk-secret" not in json.dumps(result)


@pytest.mark.parametrize("source", ["number", "file", "command"])
def test_a_run_carries_its_score(
    service: Service, provider: Provider, tmp_path: Path, source: str
) -> None:
    file = tmp_path / "reward.json"
    options = {
        "number": ("--reward", "0.5"),
        "file": ("--reward-from", str(file)),
        "command": ("--reward-cmd", f"cat {file}"),
    }
    text = f"""ask(); open({str(file)!r}, "w").write('{{"reward": 0.5}}')"""
    done = run("--json", *options[source], *python(text), url=service.url)
    assert done.returncode == 0, done.stderr
    report = told(done)
    assert report["result"]["rewards"] == {"reward": 0.5}
    assert report["no_reward"] is None


# --- where no service answers --------------------------------------------------------------


UNNAMED = """
import sys
from truezero.sdk import addresses
addresses.DEFAULT_URL = sys.argv.pop(1)
from truezero.__main__ import main
main()
"""


def run_unnamed(
    *words: str,
    nowhere: str,
    command: str = "run",
    provider: Provider | None = None,
    **more: str,
) -> subprocess.CompletedProcess[str]:
    """Run where no address is named, and nobody listens at the usual one."""
    env = environment("", provider, **more)
    del env["TRUEZERO_URL"]
    return subprocess.run(
        [sys.executable, "-c", UNNAMED, nowhere, command, *words],
        cwd=ROOT, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip


ALONE = """
from urllib.parse import urlsplit
parts = urlsplit(os.environ["OPENAI_BASE_URL"])
request = urllib.request.Request(
    f"{parts.scheme}://{parts.netloc}/rollouts/" + os.environ["TRUEZERO_ROLLOUT"] + "/outcome",
    b'{"status": "success", "rewards": 1.0}', {"content-type": "application/json",
    "authorization": "Bearer " + os.environ["TRUEZERO_ROLLOUT_KEY"]})
try:
    refused = urllib.request.urlopen(request).status
except urllib.error.HTTPError as error:
    refused = error.code
print(json.dumps({"asked": ask(), "base_url": os.environ["OPENAI_BASE_URL"], "outcome": refused,
    "variables": sorted(name for name in os.environ if name.startswith("TRUEZERO_"))}))
"""


@pytest.mark.slow
def test_a_service_of_its_own_serves_where_none_answers_and_obeys_no_agent(
    nowhere: str, tmp_path: Path
) -> None:
    """It keeps the only key, and a token, and is gone afterwards."""
    settings = {"ADMIN_TOKEN": "t", "KEY_XAI": "k", "KEY_OPENAI": "sk-real"}
    more = {f"TRUEZERO_{name}": value for name, value in settings.items()}
    with Provider(answers.healthy) as provider:
        done = run_unnamed(
            *python(ALONE), nowhere=nowhere, provider=provider, OPENAI_API_KEY="",
            TMPDIR=str(tmp_path), **more,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "starting a temporary one for this run" in done.stderr
    seen = json.loads(done.stdout)
    assert (seen["asked"], seen["outcome"]) == (200, 401), "it cannot report on itself"
    assert seen["variables"] == ["TRUEZERO_ROLLOUT", "TRUEZERO_ROLLOUT_KEY"]
    assert provider.requests[0].header("authorization") == "Bearer sk-real"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(httpx.ConnectError):
        httpx.get(str(httpx.URL(seen["base_url"]).copy_with(path="/healthz")))


@pytest.mark.slow
def test_with_a_token_an_agent_proves_itself(provider: Provider, tmp_path: Path) -> None:
    with Service(tmp_path, provider.url, ADMIN_TOKEN="t0ken") as guarded:
        done = run(*python("print(ask())"), url=guarded.url, TRUEZERO_ADMIN_TOKEN="t0ken")
    assert (done.returncode, done.stdout) == (0, "200\n")


# --- a service that goes ---------------------------------------------------------------------


def keeping(place: Path, patience_s: str) -> Any:
    return {"TRUEZERO_OUTCOMES": str(place), "TRUEZERO_OUTCOME_PATIENCE_S": patience_s}


@pytest.mark.slow
def test_an_outcome_waits_for_a_service_that_was_killed_and_comes_back(
    provider: Provider, tmp_path: Path
) -> None:
    place = tmp_path / "kept"
    with Service(tmp_path, provider.url) as service:
        killing = python(f"print(ask()); os.kill({service.pid}, 9)")

        def come_back() -> None:
            until(lambda: any(place.glob("*.json")))
            service.kill()
            service.start()

        back = threading.Thread(target=come_back)
        back.start()
        done = run("--id", "r", *killing, url=service.url, **keeping(place, "600"))
        back.join()
        assert (done.returncode, done.stdout) == (0, "200\n")
        waits, verdict = done.stderr.splitlines()
        assert waits.startswith(f"truezero: cannot reach a truezero service at {service.url} (")
        assert waits.endswith(f": outcomes wait for it for up to 600 s, and are kept in {place}")
        assert "r: counts: the model answered 1 of 1 call (healthy, 1 call" in verdict
        assert service.get("/rollouts/r/result")["status"] == "success"
    assert list(place.iterdir()) == []


@pytest.mark.slow
def test_an_outcome_of_a_service_that_stays_away_is_kept_and_exit_code_79(
    provider: Provider, tmp_path: Path
) -> None:
    place = tmp_path / "kept"
    with Service(tmp_path, provider.url) as service:
        killing = python(f"print(ask()); os.kill({service.pid}, 9); sys.exit(3)")
        words = ("--json", "--id", "r", "--batch", "b", *killing)
        done = run(*words, url=service.url, **keeping(place, "0"))
        assert (done.returncode, done.stdout) == (79, "200\n")
        record = told(done)
        (file,) = place.iterdir()
        assert f"it is kept in {file}: when the service is back, run `" in record["undelivered"]
        assert (record["exit_code"], record["agent_exit_code"]) == (79, 3)
        assert record["verdict"] is None
        service.kill()
        service.start()
        given = environment(service.url, TRUEZERO_OUTCOMES=str(place))
        delivered = forked.run("outcomes", "deliver", cwd=ROOT, env=given)
        assert delivered.returncode == 0, delivered.stderr
        assert "r: counts: the model answered 1 of 1 call (healthy, 1 call" in delivered.stdout
        assert service.get("/rollouts/r/result")["status"] == "agent_error"


# Ends what `run` has started beside it: the service of its own.
ORPHAN = """
beside = open(f"/proc/{os.getppid()}/task/{os.getppid()}/children").read().split()
for pid in map(int, beside):
    if pid != os.getpid():
        os.kill(pid, 9)
"""


@pytest.mark.slow
@pytest.mark.promise
def test_nothing_is_kept_for_a_service_of_its_own_that_dies(
    nowhere: str, provider: Provider, tmp_path: Path
) -> None:
    kept = keeping(tmp_path, "600")
    text = "print(ask(), flush=True)" + ORPHAN
    done = run_unnamed(*python(text), nowhere=nowhere, provider=provider, **kept)
    assert (done.returncode, done.stdout) == (1, "200\n")
    assert done.stderr.splitlines()[-1].startswith("truezero: cannot reach a truezero service at")
    assert list(tmp_path.iterdir()) == []


# --- what an agent can read of what started it ---------------------------------------------

# Says of what started it, of a service beside it and of itself what it can read.
SPY = """
def read(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ, open(f"/proc/{pid}/mem", "rb"):
            return len(environ.read()) > 0
    except PermissionError:
        return False
parent = os.getppid()
beside = open(f"/proc/{parent}/task/{parent}/children").read().split()
others = {pid: read(pid) for pid in [parent, *map(int, beside)] if pid != os.getpid()}
print(json.dumps({"others": list(others.values()), "own": read(os.getpid())}), flush=True)
"""


def without_tracing() -> None:
    """Drop what root may do here and no other user may: to trace any process (prctl(2))."""
    if os.getuid() == 0:
        ctypes.CDLL(None).prctl(24, 19, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_SYS_PTRACE


@pytest.mark.slow
@pytest.mark.parametrize("own", [False, True], ids=["a service elsewhere", "its own service"])
def test_an_agent_cannot_read_the_admin_token_of_what_started_it(
    service: Service, provider: Provider, nowhere: str, own: bool
) -> None:
    given = environment(service.url, provider, TRUEZERO_ADMIN_TOKEN="secret")
    started = [sys.executable, "-m", "truezero"]
    if own:
        del given["TRUEZERO_URL"]
        started = [sys.executable, "-c", UNNAMED, nowhere]
    done = subprocess.run(
        [*started, "run", *python(SPY)],
        cwd=ROOT, env=given, capture_output=True, text=True, check=False,
        preexec_fn=without_tracing,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["own"] is True
    assert found["others"] == [False] * (2 if own else 1), done.stderr


# --- stopping ------------------------------------------------------------------------------

# It and its child go on for ever, deaf to SIGTERM.
STUBBORN = """
import signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-S", "-c", deaf])
print(child.pid, flush=True)
while True:
    ask()
    time.sleep(0.1)
"""


def test_a_doomed_agent_and_its_children_are_gone_within_a_second_of_the_second_failure(
    service: Service, provider: Provider
) -> None:
    provider.plays(FAILURES[Fault.AUTH])
    done = run("--fail-fast", "--json", *python(STUBBORN), url=service.url)
    assert done.returncode == 76
    report = told(done)
    assert report["stopped_as_doomed"] is True
    assert report["agent_exit_code"] == -signal.SIGKILL
    assert report["verdict"]["doomed"] is True
    until(lambda: not alive(int(done.stdout)))
    assert _WATCH_S + _GRACE_S < 1.0, "from one look to the next, and deaf"


def alive(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text("utf-8")
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_signals_are_passed_on_and_the_rollout_is_reported(
    service: Service, provider: Provider, tmp_path: Path, rollout: str
) -> None:
    text = """
import pathlib, signal
signal.signal(signal.SIGTERM, lambda *_: (print("bye", ask()), sys.exit(7)))
pathlib.Path(sys.argv[1]).touch()
time.sleep(600)
"""
    started = tmp_path / "started"
    words = ["run", "--id", rollout, *python(text), str(started)]
    process = subprocess.Popen(
        [sys.executable, "-m", "truezero", *words],
        env=environment(service.url), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    until(started.exists)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert (process.returncode, said) == (7, "bye 200\n")
    result = service.get(f"/rollouts/{rollout}/result")
    assert (result["status"], result["error"]) == ("unknown_execution_error", "stopped by SIGTERM")


@contextlib.contextmanager
def terminal(*words: str, url: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """The command in a session of its own on a real terminal; its master's descriptor."""
    master, slave = pty.openpty()
    line = os.ttyname(slave)  # who leads a session and opens a terminal controls it
    process = subprocess.Popen(
        ["sh", "-c", f'exec "$0" "$@" <{line} >{line} 2>&1', sys.executable, "-m", "truezero",
         "run", *words],
        env=environment(url), start_new_session=True,
    )  # fmt: skip
    try:
        yield master, process
    finally:
        process.kill()
        process.wait()
        os.close(master)
        os.close(slave)


def said_until(master: int, word: str, timeout_s: float = 300) -> str:
    said = ""
    deadline = time.monotonic() + timeout_s
    while word not in said and time.monotonic() < deadline:
        if select.select([master], [], [], 0.1)[0]:
            try:
                said += os.read(master, 4096).decode()
            except OSError:  # nobody holds the other end any more
                break
    assert word in said, said
    return said


@pytest.mark.slow
def test_an_agent_can_read_the_terminal(service: Service, provider: Provider) -> None:
    with terminal(*python("print('ready'); print('got', input(), ask())"), url=service.url) as (
        master,
        process,
    ):
        said_until(master, "ready")
        os.write(master, b"hello\n")
        said_until(master, "got hello 200")
        said_until(master, "healthy")
        assert process.wait(60) == 0


@pytest.mark.slow
def test_ctrl_c_is_the_agents_and_the_verdict_still_comes(
    service: Service, provider: Provider
) -> None:
    text = """
try:
    print("ready", ask(), flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    print("stopping")
    sys.exit(9)
"""
    with terminal(*python(text), url=service.url) as (master, process):
        said_until(master, "ready 200")
        os.write(master, b"\x03")
        said_until(master, "stopping")
        said_until(master, "healthy")
        assert process.wait(60) == 9

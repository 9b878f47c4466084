"""`truezero drill` on agents that behave, swallow, retry, hang on, or cannot be started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.provider import Provider, closed_port
from tests.house import ROOT
from tests.journeys.test_run import run_unnamed
from tests.proxy.api.test_routes import Service, serving
from tests.truezero.cli.test_cli import truezero
from tests.truezero.cli.test_drill import table
from truezero import Client, models
from truezero.runner import drills
from truezero.runner.drills import DRILLS, DrillError, DrillReport, Plan

# An agent in few lines: asks `calls` times, again up to `tries` times, and ends as told.
AGENT = """
import json, os, sys, time, urllib.request
manner, calls, tries = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
body = json.dumps({"model": "gpt-5", "messages": [], "stream": manner == "stream"}).encode()
head = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
def ask():
    for attempt in range(tries):
        try:
            asked = urllib.request.Request(url, body, head)
            return json.loads(urllib.request.urlopen(asked, timeout=30).read())
        except (OSError, ValueError) as error:
            failure = error
    raise failure
print("x" * 10, flush=True)
try:
    for _ in range(calls):
        ask()
except Exception as error:
    if manner == "loud":
        sys.stderr.write("it broke")
        sys.exit(3)
    if manner == "stubborn":
        time.sleep(600)
"""


@pytest.fixture(scope="module")
def _service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("service")) as running_service:
        yield running_service


@pytest.fixture
def service(_service: Service) -> Service:
    """One for all; its provider has been asked nothing yet."""
    _service.provider.requests.clear()
    return _service


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(str(service.http.base_url)) as asking:
        yield asking


@pytest.fixture(autouse=True)
def _own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-own")


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    file = tmp_path / "agent.py"
    file.write_text(AGENT, encoding="utf-8")
    return file


def plan(
    agent: Path, *drill: str, manner: str = "quiet", calls: int = 1, tries: int = 1,
    timeout_s: float = 90.0, at_call: int | None = None,
) -> Plan:  # fmt: skip
    command = (sys.executable, "-S", str(agent), manner, str(calls), str(tries))
    return Plan(command=command, drills=drill, timeout_s=timeout_s, at_call=at_call)


def one(client: Client, what: Plan) -> DrillReport:
    (drilled,) = drills.run(what, client)
    return drilled


def test_a_failure_that_is_swallowed_is_hidden_and_its_rollout_is_reported(
    client: Client, agent: Path
) -> None:
    got = one(client, plan(agent, "auth"))
    assert (got.exit_code, got.hidden, got.conduct) == (0, True, "hid the failure")
    assert (got.verdict.health, got.verdict.subcategory) == ("api_error", "auth")
    assert (got.calls, got.struck, got.retries) == (1, 1, 0)
    assert client.result(got.rollout_id).status == "success"
    assert client.verdict(got.rollout_id).provisional is False


def test_a_failure_that_is_told_is_not_and_what_an_agent_says_is_counted_and_not_kept(
    client: Client, agent: Path
) -> None:
    got = one(client, plan(agent, "quota", manner="loud"))
    assert (got.exit_code, got.hidden, got.conduct) == (3, False, "reported it")
    assert got.verdict.subcategory == "quota"
    assert (got.output_bytes, got.error_bytes) == (11, 8)
    told = json.dumps(drills.record(got))
    assert "xxx" not in told
    assert "it broke" not in told


def test_much_output_does_not_stop_an_agent(client: Client, tmp_path: Path) -> None:
    shout = "import sys; sys.stdout.write('x' * 3_000_000); sys.stderr.write('y' * 3_000_000)"
    what = Plan(command=(sys.executable, "-S", "-c", shout), drills=("auth",), timeout_s=90)
    got = one(client, what)
    assert (got.output_bytes, got.error_bytes, got.stopped) == (3_000_000, 3_000_000, False)


def test_retries_are_counted_with_the_time_they_waste(client: Client, agent: Path) -> None:
    got = one(client, plan(agent, "overloaded", tries=4))
    assert (got.calls, got.retries) == (4, 3)
    assert got.wasted_s is not None
    assert 0 < got.wasted_s <= got.seconds


def test_an_agent_that_never_calls_is_told_apart(client: Client) -> None:
    what = Plan(command=(sys.executable, "-S", "-c", "pass"), drills=("auth",))
    got = one(client, what)
    assert (got.calls, got.hidden, got.conduct) == (0, False, "made no call")
    assert got.verdict.health == "suspected_api_error"


@pytest.mark.parametrize(
    ("drill", "calls", "at_call", "made", "struck", "rule"),
    [
        ("mid_run_quota", 3, None, 2, 1, "interrupted"),
        ("auth", 9, 4, 4, 1, "interrupted"),
        ("auth", 2, 5, 2, 0, "healthy"),  # it ended before the failing call
    ],
)
def test_calls_before_the_failing_one_are_the_providers_own(
    client: Client, service: Service, agent: Path, drill: str, calls: int, at_call: int | None,
    made: int, struck: int, rule: str,
) -> None:  # fmt: skip
    got = one(client, plan(agent, drill, calls=calls, at_call=at_call))
    assert (got.calls, got.struck, got.retries) == (made, struck, 0)
    assert len(service.provider.requests) == made - struck
    assert (got.verdict.rule, got.hidden) == (rule, struck == 1)
    assert (got.conduct == "did not reach the failing call") is (struck == 0)


@pytest.mark.slow
def test_an_agent_that_goes_on_and_on_is_stopped_with_its_children(
    client: Client, tmp_path: Path
) -> None:
    left = tmp_path / "pid"
    nest = (
        "import subprocess, sys, time, signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(left)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    what = Plan(command=(sys.executable, "-S", "-c", nest), drills=("auth",), timeout_s=5)
    got = one(client, what)
    assert (got.stopped, got.hidden) == (True, False)
    assert got.conduct == "kept running until stopped"
    assert _ends(int(left.read_text()))


def _ends(pid: int) -> bool:
    """Whether a process that sleeps for ten minutes is gone long before."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            if "zombie" in Path(f"/proc/{pid}/status").read_text("utf-8"):
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.slow
def test_an_agent_that_hangs_with_its_provider_is_stopped(client: Client, agent: Path) -> None:
    got = one(client, plan(agent, "hang", timeout_s=4))
    assert got.stopped, "the agent itself would end after 30 s"
    assert (got.calls, got.struck) == (1, 1)
    assert got.seconds >= 4


def test_an_agent_that_gives_a_hung_call_up_and_ends_well_hid_it(
    client: Client, tmp_path: Path
) -> None:
    impatient = AGENT.replace("timeout=30", "timeout=2")
    (tmp_path / "impatient.py").write_text(impatient, encoding="utf-8")
    got = one(client, plan(tmp_path / "impatient.py", "hang"))
    assert (got.exit_code, got.struck, got.hidden) == (0, 1, True)


def test_an_agent_that_succeeds_in_the_end_got_over_it(
    client: Client, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passing = models.Fault(kind="overloaded", times=2)
    monkeypatch.setattr(drills, "DRILLS", {"passing": passing})
    got = one(client, plan(agent, "passing", tries=3))
    assert (got.conduct, got.hidden, got.retries) == ("recovered", False, 2)
    assert (got.verdict.health, got.verdict.recovered_requests) == ("healthy", 2)


@pytest.mark.slow
def test_a_spoilt_answer_is_taken_for_good_and_its_findings_are_named(
    client: Client, agent: Path
) -> None:
    spoilt = ("truncate_prompt", "cut_output", "swap_model", "abort")
    drilled = drills.run(plan(agent, *spoilt), client)
    assert [one.drill for one in drilled] == list(spoilt)
    for got in drilled:
        assert (got.conduct, got.hidden) == ("took it for good", True), got.drill
        assert (got.calls, got.struck, got.verdict.health) == (1, 1, "healthy"), got.drill
    abort = drilled[spoilt.index("abort")]
    assert drills.record(abort)["findings"] == ("engine_aborted (invalid)",)
    cut = drilled[spoilt.index("cut_output")]
    assert cut.findings == ("output_truncated (suspect)",)
    assert "healthy · engine_aborted (invalid)" in table(drilled)


def test_a_spoilt_answer_that_is_refused_is_reported(client: Client, agent: Path) -> None:
    suspicious = AGENT.replace(
        "return json.loads(urllib.request.urlopen(asked, timeout=30).read())",
        "assert b'\"stop\"' in urllib.request.urlopen(asked, timeout=30).read()",
    )
    agent.write_text(suspicious, encoding="utf-8")
    got = one(client, plan(agent, "abort", manner="loud"))
    assert (got.conduct, got.hidden, got.exit_code) == ("reported it", False, 3)


@pytest.mark.slow
def test_a_slow_answer_is_waited_for_or_not(client: Client, agent: Path) -> None:
    got = one(client, replace(plan(agent, "slow"), delay_s=0.01))
    assert (got.conduct, got.hidden, got.struck) == ("waited for it", False, 1)
    agent.write_text(AGENT.replace("timeout=30", "timeout=1"), encoding="utf-8")
    got = one(client, replace(plan(agent, "slow"), delay_s=600.0))
    assert (got.conduct, got.hidden) == ("hid the failure", True)
    (call,) = client.exchanges(got.rollout_id)
    assert (call.injected, call.status) == (True, None)


@pytest.mark.slow
def test_each_drill_is_told_as_it_ends_and_the_table_names_what_was_hidden(
    client: Client, agent: Path
) -> None:
    told: list[str] = []
    drilled = drills.run(
        plan(agent, "auth", "empty", "reset"), client, lambda one: told.append(one.drill)
    )
    assert told == [one.drill for one in drilled] == ["auth", "empty", "reset"]
    assert drilled[1].verdict.rule == "empty_answers"
    assert drilled[2].verdict.subcategory == "provider_error"
    said = table(drilled)
    assert "Failures hidden behind exit code 0: auth, empty, reset." in said
    assert "api_error auth" in said
    assert "suspected_api_error empty_answers" in said


def test_an_interrupted_drill_ends_the_agent(client: Client, tmp_path: Path, agent: Path) -> None:
    class Enough(Exception):
        pass

    def stop(_one: DrillReport) -> None:
        raise Enough

    with pytest.raises(Enough):
        drills.run(plan(agent, "auth", "quota"), client, stop)


@pytest.mark.parametrize(
    ("command", "sentence", "code"),
    [("no-such-agent-anywhere", "no-such-agent-anywhere: command not found", 127),
     (f"{ROOT}/README.md", "cannot be executed", 126)],
)  # fmt: skip
def test_what_cannot_be_started_is_one_sentence(
    client: Client, command: str, sentence: str, code: int
) -> None:
    before = {rollout.id for rollout in client.rollouts()}
    with pytest.raises(DrillError, match=sentence) as caught:
        drills.run(Plan(command=(command,), drills=("auth",)), client)
    assert caught.value.code == code
    (rollout,) = (rollout for rollout in client.rollouts() if rollout.id not in before)
    assert client.verdict(rollout.id).health == "not_judged"


def test_drills_are_chosen_by_name_in_the_tables_order() -> None:
    assert drills.chosen(None) == tuple(DRILLS)
    assert drills.chosen(["reset", "auth"]) == ("auth", "reset")
    with pytest.raises(DrillError, match=r"unknown fault 'boredom'; choose from auth, quota"):
        drills.chosen(["auth", "boredom"])


@pytest.mark.slow
def test_the_command_drills_with_a_service_of_its_own(agent: Path) -> None:
    command = ["--", sys.executable, "-S", str(agent), "stream", "1", "1"]
    with Provider() as provider:
        said = run_unnamed(
            "--json", "--fault", "auth", "--fault", "truncation", *command, command="drill",
            nowhere=f"http://127.0.0.1:{closed_port()}", provider=provider,
        )  # fmt: skip
        assert provider.requests == []
    assert said.returncode == 0, said.stderr
    auth, truncation = json.loads(said.stdout)
    assert (auth["conduct"], auth["verdict"]["subcategory"]) == ("hid the failure", "auth")
    assert truncation["verdict"]["subcategory"] == "provider_error"


def test_a_wrong_drill_is_one_sentence(tmp_path: Path, service: Service) -> None:
    for arguments, code, sentence in (
        (("--fault", "boredom", "--", "true"), 2, "unknown fault 'boredom'"),
        (("--fault", "auth", "--", "no-such-agent"), 127, "command not found"),
    ):
        url = str(service.http.base_url)
        said = truezero("drill", *arguments, folder=tmp_path, TRUEZERO_URL=url)
        assert said.returncode == code, arguments
        assert sentence in said.stderr, arguments
        assert "Traceback" not in said.stderr, arguments


@pytest.mark.slow
def test_ctrl_c_ends_a_drill_and_its_agent(tmp_path: Path, service: Service) -> None:
    left = tmp_path / "pid"
    sleep = f"import os, time; open({str(left)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    clean = {name: value for name, value in os.environ.items() if "TRUEZERO" not in name}
    process = subprocess.Popen(
        [sys.executable, "-m", "truezero", "drill", "--", sys.executable, "-S", "-c", sleep],
        env=clean | {"TRUEZERO_URL": str(service.http.base_url)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 300
        while not (left.exists() and left.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(2)
        assert process.wait(60) != 0
        assert _ends(int(left.read_text()))
    finally:
        process.kill()
        process.wait()

"""Inspect, verifiers and mini-SWE-agent from PyPI while their provider fails: alone, and with us.

Part of `make integrations`, which writes what it measured to docs/measurements/integrations.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Answer, Provider, Request
from tests.journeys.failing import Case, plays
from tests.journeys.harnesses import ENVIRONMENTS, KEY, SPOKEN_TEXTS, Row, execute, put_on_page
from tests.journeys.service import Service
from tests.journeys.test_harness_failures import (
    WHY,
    Measured,
    by_case,
    false_zeros,
    measure,
    run,
    table,
    without_evidence,
)
from tests.journeys.test_integrations import SWEBENCH_CONFIG, fails_the_doomed
from truezero.audit.report import audit

pytestmark = [
    pytest.mark.skipif(not ENVIRONMENTS, reason="real harnesses are run by `make integrations`"),
    pytest.mark.timeout(1800),
]

# --- Inspect -------------------------------------------------------------------------------

# Its scorer is `measured` or `plain`, its solver `swallows` every error or `raises`; then how many
# samples of a case there are, and how many at once.
INSPECT = """
import json, sys
from importlib.metadata import version
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import solver

cases, base = sys.argv[1].split(","), sys.argv[3]
scored, swallows, copies, at_once = sys.argv[4:]
# streamed chat completions, no retries of its own
how = {"base_url": base, "streaming": True, "responses_api": False}

async def ask(model, case, turn):
    try:
        said = [ChatMessageUser(content=f"case:{case} turn:{turn}")]
        return (await model.generate(said)).completion
    except Exception:
        if swallows == "raises":
            raise
        return ""

@solver
def asks():
    async def solve(state, generate):
        case = state.sample_id.split("@")[0]
        if case == "MODEL":
            await ask(get_model("openai/gpt-5-mini", **how), case, 0)
        answers = [await ask(get_model(), case, turn) for turn in (1, 2, 3)]
        state.output.completion = "it is one" if case == "WRONG" else answers[-1]
        return state
    return solve

scorer = includes()
if scored == "measured":
    from truezero.integrations.inspect_ai import measured
    scorer = measured(scorer)
samples = [Sample(id=f"{case}@{n}", input=case, target="zero is true")
           for case in cases for n in range(int(copies))]
[log] = eval(
    Task(name="asking", dataset=samples, solver=asks(), scorer=scorer),
    model=get_model("openai/gpt-5", **how), display="plain", log_dir="logs", max_retries=0,
    fail_on_error=False, max_samples=int(at_once), log_model_api=True,
)
for sample in log.samples or ():
    [score] = (sample.scores or {}).values() or [None]
    print(json.dumps({"case": sample.id.split("@")[0],
                      "score": {"C": 1.0, "I": 0.0}.get(score and score.value),  # NaN is unscored
                      "reason": score and score.reason,
                      "why": sample.error.message if sample.error else None,
                      "limit": sample.limit and sample.limit.type,
                      "headers": sorted({name for event in sample.events
                                         if event.event == "model"
                                         for name in event.config.extra_headers or {}})}))
found = log.results and log.results.scores
print(json.dumps({"case": "log", "version": version("inspect-ai"), "status": log.status,
                  "error": log.error.message if log.error else None,
                  "accuracy": found[0].metrics["accuracy"].value if found else None}))
"""


@pytest.fixture(scope="module")
def inspect_ai(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    def runs(mode: str, url: str, home: Path, cases: Iterable[Case]) -> list[Row]:
        base, service = (f"{url}/v1", "") if mode == "stock" else (f"{url}/openai/v1", url)
        words = ("plain" if mode == "stock" else "measured", "swallows", "1", "4")
        return run("inspect_ai", INSPECT, home, cases, mode, base, *words, service=service)

    yield from measure("inspect_ai", tmp_path_factory.mktemp("inspect_ai"), runs)


def test_inspect_leaves_out_what_no_model_made(inspect_ai: Measured) -> None:
    assert {case: inspect_ai.ours[case]["reason"] for case in WHY} == WHY
    assert all(inspect_ai.ours[case]["score"] is None for case in WHY)
    kept = {case: inspect_ai.ours[case]["score"] for case in (Case.OK, Case.WRONG)}
    assert kept == {Case.OK: 1.0, Case.WRONG: 0.0}
    log = inspect_ai.extra["log"]
    assert (log["status"], log["accuracy"]) == ("success", 0.5)


# --- verifiers -----------------------------------------------------------------------------

VERIFIERS = (
    SPOKEN_TEXTS
    + """
import asyncio, json, sys
from importlib.metadata import version
from pathlib import Path
import httpx
import verifiers.v1 as vf
from verifiers.v1.runtimes import ProgramResult, SubprocessConfig
from verifiers.v1.utils.trace_store import append_trace

cases, ours, url = sys.argv[1].split(","), sys.argv[2] == "ours", sys.argv[3]

class Asks(vf.Harness):
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False
    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, *more, **options):
        for turn in (1, 2, 3):
            said = [{"role": "user", "content": f"case:{data.prompt} turn:{turn}"}]
            asked = {"model": ctx.model, "stream": True, "messages": said}
            async with httpx.AsyncClient(timeout=60) as client:
                headers = {"authorization": "Bearer " + secret}
                answer = await client.post(endpoint + "/chat/completions", headers=headers,
                                           json=asked)
                if sys.argv[5:] == ["sides"]:
                    counted = await client.post(endpoint + "/messages/count_tokens", json=asked,
                                                headers={"x-api-key": secret})
                    listed = await client.get(endpoint + "/models", headers=headers)
                    sides[data.id] = [counted.status_code, listed.status_code]
            answered[trace.id] = "".join(spoken(answer.text)) if answer.is_success else ""
        return ProgramResult(0, "", "")

answered, sides = {}, {}

class Task(vf.Task):
    @vf.reward(weight=2.0)
    async def solved(self, trace):
        said = "" if self.data.id == "WRONG" else answered.get(trace.id, "")
        return 0.5 * ("zero is true" in said)

def agent_at(base):
    provider = vf.EvalClientConfig(base_url=base, api_key_var="OPENAI_API_KEY")
    agent = vf.Agent(vf.AgentConfig(model="gpt-5", client=provider, runtime=SubprocessConfig()))
    agent.harness = Asks(agent.config.harness)
    return agent

async def main():
    rollout_id = None
    if ours:
        from truezero import Client, ServiceError
        from truezero.integrations.verifiers import settle
        client = Client()
    for case in cases:
        base = url
        if sys.argv[4:5] == ["addressed"]:
            registered = client.register(batch="run", task=case)
            base = registered.base_urls["openai"] if "/openai/" in url else url
            rollout_id = registered.id
        trace = await agent_at(base).run(Task(vf.TaskData(id=case, prompt=case)))
        await append_trace(Path("run"), trace, asyncio.Lock())
        why = kept = None
        try:
            if ours:
                settled = settle(client, trace, batch="run", rollout_id=rollout_id)
                why, kept = settled.verdict.error, settled.result.rewards
        except ServiceError as error:
            why = str(error)
        rewards = [reward and reward.value for reward in trace.rewards.values()]
        print(json.dumps({"case": case, "ok": trace.ok, "reward": rewards and rewards[0],
            "errors": [type(error).__name__ if not hasattr(error, "type") else error.type
                       for error in trace.errors or []], "why": why, "kept": kept,
            "sides": sides.get(case)}), flush=True)
    print(json.dumps({"case": "run", "version": version("verifiers")}))

Path("run").mkdir()
asyncio.run(main())
"""
)


@pytest.fixture(scope="module")
def verifiers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    def runs(mode: str, url: str, home: Path, cases: Iterable[Case]) -> list[Row]:
        base, service = (f"{url}/v1", "") if mode == "stock" else (f"{url}/openai/v1", url)
        return run("verifiers", VERIFIERS, home, cases, mode, base, service=service)

    yield from measure("verifiers", tmp_path_factory.mktemp("verifiers"), runs)


def test_verifiers_rewards_nothing_that_no_model_made(verifiers: Measured) -> None:
    for case, why in WHY.items():
        row = verifiers.ours[case]
        assert (row["reward"], row["ok"]) == (None, False), case
        assert why.startswith(row["why"]), case  # it has one model, which is not registered
        assert row["kept"] is None, case
    for case, reward in ((Case.OK, 1.0), (Case.WRONG, 0.0)):
        row = verifiers.ours[case]
        assert (row["reward"], row["ok"], row["why"]) == (reward, True, None), case
        assert row["kept"] == {"solved": reward, "reward": reward}, case
    calls = [call for calls in verifiers.calls.values() for call in calls]
    assert {call["attribution_source"] for call in calls} == {"borrowed_header"}
    assert {request.header("authorization") for request in verifiers.asked} == {f"Bearer {KEY}"}


SAVED = """
import json, sys
from pathlib import Path
from truezero import Client
from truezero.integrations.verifiers import settle_run

settled = settle_run(Client(), Path(sys.argv[2]), batch="run")
print(json.dumps({one.task: one.measured for one in settled}))
"""


def test_saved_traces_of_verifiers_are_settled_as_live_ones(
    verifiers: Measured, tmp_path: Path
) -> None:
    words = (str(verifiers.alone.with_name("ours") / "run"),)
    [saved] = run("verifiers", SAVED, tmp_path / "run", (), *words, service=verifiers.service)
    assert saved == {case.name: case in (Case.OK, Case.WRONG) for case in Case}


@pytest.mark.harness("verifiers")
def test_verifiers_calls_prove_whose_they_are_where_a_token_is_asked_for(tmp_path: Path) -> None:
    token = {"TRUEZERO_ADMIN_TOKEN": "token-of-the-admin"}

    def answering(request: Request) -> Answer:
        return (plays if "/chat/" in request.path else fails_the_doomed)(request)

    with (
        Provider(answering) as provider,
        Service(tmp_path, provider.url, ADMIN_TOKEN="token-of-the-admin") as service,
    ):
        words = ("OK,AUTH", "ours", f"{service.url}/openai/v1", "addressed", "sides")
        environment = {"TRUEZERO_URL": service.url, **token}
        ran = execute("verifiers", VERIFIERS, tmp_path / "run", *words, environment=environment)
    assert ran.code == 0, ran.stderr
    rows = ran.by_case
    assert {case: row["kept"] is not None for case, row in rows.items()} == {
        Case.OK: True, Case.AUTH: False,
    }  # fmt: skip
    assert rows[Case.OK]["sides"] == [200, 200], "side calls prove it too"
    asked = [request for request in provider.requests if "/chat/" in request.path]
    assert {request.header("authorization") for request in asked} == {f"Bearer {KEY}"}
    names = {name.lower() for request in provider.requests for name, _ in request.headers}
    assert not {name for name in names if name.startswith("x-truezero")}


# --- mini-SWE-agent ------------------------------------------------------------------------

# The command as a process of its own; then what it predicted, as `ours` with each verdict.
MINI = """
import json, subprocess, sys
from importlib.metadata import version
from pathlib import Path

cases, ours, url = sys.argv[1].split(","), sys.argv[2] == "ours", sys.argv[3]
Path("tasks").mkdir()
rows = [{"instance_id": case, "problem_statement": f"case:{case}"} for case in cases]
Path("tasks/test.jsonl").write_text("\\n".join(map(json.dumps, rows)))
config = Path("config.yaml")
if not ours:
    config.write_text(config.read_text() + f"  model_kwargs:\\n    api_base: {url}\\n")
module = "truezero.integrations.mini_swe_agent" if ours else "minisweagent.run.benchmarks.swebench"
done = subprocess.run([sys.executable, "-m", module, "--subset", "tasks", "--split", "test",
                       "-o", "out", "-c", "config.yaml", "-w", sys.argv[4]])
print(flush=True)  # what it drew has no end of line
predictions = Path("out/preds.json")
predicted = json.loads(predictions.read_text()) if predictions.exists() else {}
why = {}
if ours and not done.returncode:
    from truezero import Client
    client = Client()
    why = {one.task: client.verdict(one.id).error
           for one in client.rollouts(batch="mini-swe-agent")}
for case in cases:
    path = Path(f"out/{case}/{case}.traj.json")
    if path.exists():
        print(json.dumps({"case": case, "version": version("mini-swe-agent"),
            "ended": json.loads(path.read_text())["info"]["exit_status"], "why": why.get(case),
            "patch": predicted[case]["model_patch"] if case in predicted else None}))
sys.exit(done.returncode)
"""
_TURNS = re.compile(rb'"role": ?"assistant"')
_INSTANCE = re.compile(rb"case:(\w+)")


def works(request: Request) -> Answer:
    """Answer mini-SWE-agent, which asks by tools and unstreamed: three calls, the last submits.

    An error inside the stream is one inside a 200 here.
    """
    named = _INSTANCE.search(request.body)
    assert named is not None
    case, turn = Case[named[1].decode()], 1 + len(_TURNS.findall(request.body))
    fault = _FAULTS.get(case)
    if fault is not None and (case is not Case.MIDWAY or turn > 1):
        return answers.FAILURES[Api.CHAT][fault]
    if case is Case.IN_STREAM:
        error = {"message": "The server had an error.", "type": "server_error", "code": None}
        return answers.whole({"error": error})
    patch = "" if case is Case.WRONG else " && echo diff --git a/zero"
    submit = f"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT{patch}"
    command = None if case is Case.EMPTY else submit if turn > 2 else f"echo {turn}"
    if command is None:
        return answers.chat(text="")
    return answers.chat_tools(name="bash", arguments=json.dumps({"command": command}))


_FAULTS: Mapping[Case, Fault] = {
    Case.AUTH: Fault.AUTH,
    Case.QUOTA: Fault.QUOTA,
    Case.RATE_LIMIT: Fault.RATE_LIMIT,
    Case.OUTAGE: Fault.PROVIDER_ERROR,
    Case.MIDWAY: Fault.QUOTA,
    Case.MODEL: Fault.MODEL_NOT_FOUND,
}


@pytest.fixture(scope="module")
def mini_swe_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    def configured(home: Path) -> None:
        (home / "config.yaml").write_text(SWEBENCH_CONFIG)

    def runs(mode: str, url: str, home: Path, cases: Iterable[Case]) -> list[Row]:
        service = "" if mode == "stock" else url
        words = (mode, f"{url}/v1", "3")
        return run("mini_swe_agent", MINI, home, cases, *words, service=service, begun=configured)

    home = tmp_path_factory.mktemp("mini_swe_agent")
    yield from measure("mini_swe_agent", home, runs, works)


def test_mini_swe_agents_false_predictions_are_removed(mini_swe_agent: Measured) -> None:
    for case, why in WHY.items():
        row = mini_swe_agent.ours[case]
        assert row["patch"] is None, case
        assert row["why"].partition(":")[0] == why.partition(":")[0], case  # it stops at the first
    for case, patch in ((Case.OK, True), (Case.WRONG, False)):
        row = mini_swe_agent.ours[case]
        assert (bool(row["patch"]), row["patch"] is None, row["why"]) == (patch, False, None)


@pytest.mark.parametrize(("harness", "reported"), [("inspect_ai", "0.500"), ("verifiers", "0.100")])
def test_check_says_a_harnesss_score_beside_the_one_of_what_was_measured(
    harness: str, reported: str, request: pytest.FixtureRequest
) -> None:
    """Inspect's is the same: `measured` left out what no model made."""
    checked = request.getfixturevalue(harness).checked
    assert f"score 0.500, as the harness reported it {reported}" in checked


# --- what was written without us, audited -------------------------------------------------

# Where each writes. Its files do not tell if answers without a text had other output.
FOLDERS: Mapping[str, str] = {"inspect_ai": "logs", "verifiers": "run", "mini_swe_agent": "out"}


@pytest.mark.parametrize("harness", FOLDERS)
def test_an_audit_finds_the_false_zeros(harness: str, request: pytest.FixtureRequest) -> None:
    found = false_zeros(Path(FOLDERS[harness]), request.getfixturevalue(harness))
    assert found == set(WHY) - {Case.EMPTY}


READ_TRACES = """
import json, sys
from pathlib import Path
from verifiers.v1.task import WireTaskData
from verifiers.v1.trace import Trace
from verifiers.v1.utils.trace_store import read_episodes
for episode in read_episodes(Path(sys.argv[2]), Trace[WireTaskData]):
    for trace in episode.traces:
        rewards = [reward and reward.value for reward in trace.rewards.values()]
        print(json.dumps({"case": trace.task.data.id, "ok": trace.ok, "rewards": rewards}))
"""


def test_verifiers_own_reader_reads_the_copy_of_its_traces(
    verifiers: Measured, tmp_path: Path
) -> None:
    report = audit(verifiers.alone / "run", write=True, out=tmp_path / "copy")
    causes = {run.task: run.verdict.fingerprint for run in report.runs}
    assert (causes[Case.OK.name], causes[Case.AUTH.name]) == (None, "auth:401")
    rows = by_case(run("verifiers", READ_TRACES, tmp_path / "run", (), str(report.written)))
    for case in {*WHY} - {Case.EMPTY}:
        assert rows[case]["ok"] is False, case
        assert {*rows[case]["rewards"]} <= {None}, case
    for case, reward in ((Case.OK, 1.0), (Case.WRONG, 0.0), (Case.EMPTY, 0.0)):
        assert (rows[case]["ok"], rows[case]["rewards"]) == (True, [reward]), case


# --- the page ------------------------------------------------------------------------------


def said_by_inspect(row: Row) -> str:
    score = "unscored" if row["score"] is None else f"score {row['score']}"
    return score + (f", `{without_evidence(row['reason'])}`" if row["reason"] else "")


def said_by_verifiers(row: Row) -> str:
    reward = "no reward" if row["reward"] is None else f"reward {row['reward']}"
    errors = "".join(f", `{kind}`" for kind in row["errors"][:1])
    why = f", `{without_evidence(row['why'])}`" if row["why"] else ""
    return f"{reward}, ok {str(row['ok']).lower()}{errors}{why}"


def said_by_mini(row: Row) -> str:
    patch = "no prediction" if row["patch"] is None else "a patch" if row["patch"] else "empty"
    why = f", `{without_evidence(row['why'])}`" if row["why"] else ""
    return f"`{row['ended']}`, {patch}{why}"


SPOKEN: Mapping[str, Callable[[Row], str]] = {
    "inspect_ai": said_by_inspect,
    "verifiers": said_by_verifiers,
    "mini_swe_agent": said_by_mini,
}


@pytest.mark.parametrize("harness", list(SPOKEN))
def test_the_page_shows_what_was_measured(harness: str, request: pytest.FixtureRequest) -> None:
    measured = request.getfixturevalue(harness)
    put_on_page(harness, lambda old: table(old, measured, SPOKEN[harness]))

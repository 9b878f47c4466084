"""Gateways from PyPI that keep traces, while their engine fails in ten ways: their rows, masked.

Agent Lightning and rLLM's model gateway run as packaged, with truezero between gateway and engine
and between agent and gateway. Each sample has four rollouts: one is solved, one is wrong, and two
meet the engine's failure on their second call. Part of `make integrations`, which writes the tables
to docs/measurements/integrations.md.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

import pytest

from tests.fakes import answers
from tests.fakes.provider import Answer, Cut, Provider, Request, closed_port
from tests.journeys.harnesses import ENVIRONMENTS, Row, execute, put_on_page
from tests.journeys.service import Service

pytestmark = [
    pytest.mark.harness("gateways"),
    pytest.mark.skipif(not ENVIRONMENTS, reason="real harnesses are run by `make integrations`"),
    pytest.mark.timeout(600),
]


# --- the engine ------------------------------------------------------------------------------


class Strike(StrEnum):
    """What the engine does to the second call; the names stand in the tables."""

    OK = "ok"
    WRONG = "wrong answer"
    RATE_LIMIT = "rate limit (429)"
    OUTAGE = "outage (503)"
    CRASH = "engine dead (500)"
    RESET = "connection reset"
    CUT = "answer cut"
    ABORT = "aborted"
    PAUSED = "paused for new weights (503)"
    EMPTY = "empty answer"
    IN_BODY = "error inside a 200"
    MODEL = "model not loaded (404)"


GENUINE = (Strike.OK, Strike.WRONG)
FAILURES = tuple(strike for strike in Strike if strike not in GENUINE)
BROKEN = (Strike.RESET, Strike.CUT)  # of these calls gateways keep nothing
REFUSED = (Strike.RATE_LIMIT, Strike.OUTAGE, Strike.CRASH, Strike.PAUSED)
SILENT = (Strike.EMPTY,)  # a model may end so: no failure is proven behind an answer
_numbers = itertools.count(1)


def _refusal(status: int, kind: str, message: str) -> Answer:
    return answers.whole({"error": {"message": message, "type": kind, "code": status}}, status)


def _answer(prompt: str, text: str, finish: str = "stop") -> Answer:
    """An answer as vLLM gives it with ``return_token_ids``: a token for each byte."""
    tokens, made = list(prompt.encode()), list(text.encode())
    return answers.whole({
        "id": f"chatcmpl-{next(_numbers):08x}", "object": "chat.completion", "model": "m",
        "choices": [{
            "index": 0, "message": {"role": "assistant", "content": text},
            "finish_reason": finish, "token_ids": made,
        }],
        "prompt_token_ids": tokens,
        "usage": {"prompt_tokens": len(tokens), "completion_tokens": len(made),
                  "total_tokens": len(tokens) + len(made)},
    })  # fmt: skip


def engine(request: Request) -> Answer:
    """Answer the first call of a rollout, and the second as its case wants it."""
    if not request.path.endswith("/chat/completions"):
        return answers.whole({})
    messages = json.loads(request.body)["messages"]
    prompt = "\n".join(str(message["content"]) for message in messages)
    strike = Strike[prompt.rpartition("case:")[2].split()[0]]
    good = _answer(prompt, "It is not." if strike is Strike.WRONG else "Indeed, zero is true.")
    if "turn:2" not in prompt:
        return good
    match strike:
        case Strike.RATE_LIMIT:
            return _refusal(429, "rate_limit_error", "Rate limit reached for requests")
        case Strike.OUTAGE:
            return _refusal(503, "ServiceUnavailableError", "no healthy upstream")
        case Strike.CRASH:
            return _refusal(500, "InternalServerError", "EngineCore encountered an issue")
        case Strike.RESET:
            return Answer(body=(Cut(reset=True),), length=100)
        case Strike.CUT:
            half = len(good.content) // 2
            return Answer(body=(good.content[:half], Cut()), length=len(good.content))
        case Strike.ABORT:
            return _answer(prompt, "Indeed, ze", "abort")
        case Strike.PAUSED:
            return _refusal(503, "ServiceUnavailableError", "The engine is paused")
        case Strike.EMPTY:
            return _answer(prompt, "")
        case Strike.IN_BODY:
            message = "The server had an error while processing your request."
            return answers.whole({"error": {"message": message, "type": "server_error"}})
        case Strike.MODEL:
            return _refusal(404, "NotFoundError", "The model `m` does not exist.")
    return good


# --- the programs ----------------------------------------------------------------------------

COMMON = """
import json, os, statistics, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
import httpx, uvicorn
import truezero
from truezero.audit.mask import fetch, mask

cases, place, service, port = sys.argv[1].split(","), sys.argv[2], sys.argv[3], int(sys.argv[4])
own = f"http://127.0.0.1:{port}"
# A gateway that was cut off closes its agent's connection: another call must not be on it.
http = httpx.Client(timeout=60, limits=httpx.Limits(max_keepalive_connections=0))
client = truezero.Client(service)
SYSTEM = {"role": "system", "content": "You say what zero is. " + "Think well. " * 60}

def serve(app):
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)

def play(base, name, case, headers=None):
    "Ask twice, as an agent that takes an error for an answer; the text of the last."
    said, text = [SYSTEM], ""
    for turn in (1, 2):
        said = [*said, {"role": "user", "content": f"{name} turn:{turn} case:{case} "}]
        asked = {"model": "m", "messages": said}
        try:
            answer = http.post(base + "/chat/completions", json=asked, headers=headers)
            text = answer.json()["choices"][0]["message"]["content"]
        except (httpx.HTTPError, ValueError, LookupError):
            text = ""
        said = [*said, {"role": "assistant", "content": text}]
    return text

def case_of(member, case):
    return {0: "OK", 1: "WRONG"}.get(member, case)

def advantages(rewards):
    "verl 0.9.1, core_algos.compute_grpo_outcome_advantage"
    if len(rewards) < 2:
        return list(rewards)
    mean, std = statistics.mean(rewards), statistics.stdev(rewards)
    return [(reward - mean) / (std + 1e-6) for reward in rewards]

def tell(case, before, after, trained=None):
    "Rewards of a group's rows by rollout, and what the solved one is worth."
    for number, rows in enumerate((before, after)):
        made = dict(zip(rows, advantages(list(rows.values()))))
        if trained is not None:
            theirs = {name: trained[number][name] for name in rows}
            assert all(abs(made[name] - theirs[name]) < 1e-3 for name in rows), (made, theirs)
        if number == 0:
            worth = made
    print(json.dumps({"case": case, "before": list(before.values()), "after": list(after.values()),
        "advantages": [[round(x, 2) + 0.0 for x in each.values()] for each in (worth, made)]}))
"""

LIGHTNING = """
try:
    import torch
except ImportError:  # rewards and metrics are computed without it
    from unittest.mock import MagicMock
    sys.modules.update({name: MagicMock() for name in ("torch", "tensordict", "verl")})
    sys.modules["torch"].Tensor = type("Tensor", (), {})
    torch = None
from agentlightning.hooks import load_hooks
from agentlightning.server import proxy
from agentlightning.server.app import create_app
from agentlightning.verl.agl_rollout_manager import AglRolloutManager
from agentlightning.verl.rollout_adapter import RolloutAdapter
from truezero.integrations.agent_lightning import base_url, measured_adapter, measured_rollouts

proxy._RETRY_BACKOFF_BASE_SECONDS = 0.01  # its six attempts, without its waits
serve(create_app({"key": "", "default_proxy": {
    "model_name": "m", "train": {"temperature": 1}, "val": {"temperature": 1}}}))

HOOKS = '''
from agentlightning.hooks import RolloutHooks
from truezero.integrations.agent_lightning import VerdictHooks

class Hooks(VerdictHooks, RolloutHooks):
    batch = "step-1"
'''
hooks, endpoint = None, sys.argv[5] + "/v1"
if place == "engine":
    gateway = client.register(id="gateway", batch="step-1")
    endpoint = gateway.base_urls["vllm"]
else:
    open("hooks.py", "w").write(HOOKS)
    os.environ["TRUEZERO_URL"] = service
    hooks = load_hooks("hooks.py")
    hooks.on_startup()

manager = AglRolloutManager(agl_base_url=own, agl_key="", model="m", step=1, train_rollout_n=4,
                            poll_interval_seconds=0.1, hooks=hooks)
manager.register_model([endpoint])

def run(rollout, member):
    name = rollout["rollout_id"]
    base = f"{own}/proxy/rollout/{name}/attempt/0/mode/train/openai/v1"
    if place == "agent":
        base = base_url(base, service=service)
    def state(state, **status):
        body = {"status": {"state": state, "last_attempt_id": "0", **status}}
        http.patch(f"{own}/api/rollouts/{name}", json=body).raise_for_status()
    state("running")
    case = case_of(member, rollout["input"]["data_id"])
    text = play(base, name, case)
    if member == 3 and "true" not in text and case not in ("OK", "WRONG"):
        return state("failed", error_message="subprocess exited with code 1")  # it gives no reward
    event = {"event_type": "reward", "data": {"value": float("zero is true" in text)}}
    http.post(f"{own}/api/rollouts/{name}/attempt/0/events", json=event).raise_for_status()
    state("succeeded")

member_of = {}  # rollout -> its place in its group

def agents():
    queued, states = [], {"state_in": ["queuing"], "limit": 500}
    while len(queued) < 4 * len(cases):
        time.sleep(0.05)
        queued = http.get(f"{own}/api/rollouts", params=states).json()
    members = {case: iter(range(4)) for case in cases}
    member_of.update({each["rollout_id"]: next(members[each["input"]["data_id"]])
                      for each in queued})
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda each: run(each, member_of[each["rollout_id"]]), queued))

thread = threading.Thread(target=agents)
thread.start()
told, sys.stdout = sys.stdout, sys.stderr  # it prints its progress
completed = manager.enqueue_and_wait_until_completed({"data_id": cases}, is_train=True)
thread.join()

wire = None
if place == "engine":
    records = [each.model_dump(mode="json") for each in completed]
    wire = fetch(client, "step-1", records, shared=["gateway"])
kept = measured_rollouts(completed, wire)
how = {"max_prompt_length": 4096, "max_response_length": 4096, "device": "cpu", "pad_token_id": 0,
       "reward_fillna_value": 0.0, "trace_aggregator_level": "trajectory"}
adapter, ours = RolloutAdapter(**how), measured_adapter(RolloutAdapter, wire)(**how)

def trained(adapter):
    "The advantages of its trainer's own functions."
    from agentlightning.verl.rollout_level_advantage import compute_rollout_level_advantage
    batch, _ = adapter.get_train_data_batch(completed)
    batch.non_tensor_batch["uid"] = batch.non_tensor_batch["data_id_list"]
    batch.batch["token_level_rewards"] = batch.batch["token_level_scores"].float()
    batch, _ = compute_rollout_level_advantage(
        batch, adv_estimator="grpo", gamma=1.0, lam=1.0, num_repeat=4)
    rows = zip(batch.non_tensor_batch["rollout_id_list"], batch.batch["advantages"],
               batch.batch["response_mask"])
    return {str(name): float(made[kept.bool()][0]) for name, made, kept in rows}

values = None if torch is None else [trained(adapter), trained(ours)]
metrics = [each.get_test_metrics(completed) for each in (adapter, ours)]
sys.stdout = told

def rows(rollouts, case):
    "Those that it makes training rows of, with the reward that it gives them."
    names = [each for each in rollouts if each.input["data_id"] == case and each.triplets]
    names.sort(key=lambda each: member_of[each.rollout_id])
    return {each.rollout_id: adapter._fillna_reward(each) for each in names}

for case in cases:
    tell(case, rows(completed, case), rows(kept, case), values)
seen = mask(records, wire) if wire else None
print(json.dumps({"case": "all", "version": version("agentlightning"),
    "trainer": torch is not None, "val/reward": [float(each["val/reward"]) for each in metrics],
    "unrewarded": sum(each.final_reward is None for each in completed),
    "joined": seen and sum(each.joined for each in seen.traces),
    "retries": seen and len(seen.shared_missing["retry"]),
    "notes": [event["data"] for each in completed for event in each.events
              if event["event_type"] == "truezero"],
}))
"""

RLLM = """
from rllm_model_gateway.client import GatewayClient
from rllm_model_gateway.models import GatewayConfig
from rllm_model_gateway.server import create_app

serve(create_app(GatewayConfig(store_worker="memory", sync_traces=True)))
gateway = GatewayClient(own)
gateway.add_worker(f"{service}/vllm" if place == "engine" else sys.argv[5], api_path="/v1")
rewards, groups = {}, {case: [f"{case}-{member}" for member in range(4)] for case in cases}

def run(name):
    gateway.create_session(name)
    case, _, member = name.rpartition("-")
    base, headers = gateway.get_session_url(name), {"x-truezero-rollout": name}
    if place == "agent":
        base, headers = f"{service}/r/{name}/rllm/sessions/{name}/v1", None
    text = play(base, name, case_of(int(member), case), headers)
    rewards[name] = float("zero is true" in text)
    client.report(name, batch="step-1", status="success", prompts_executed=1,
                  rewards={"reward": rewards[name]})

with ThreadPoolExecutor(4) as pool:
    list(pool.map(run, [name for group in groups.values() for name in group]))
traces = [trace for group in groups.values() for name in group
          for trace in gateway.get_session_traces(name)]
records = [json.loads(trace.model_dump_json()) for trace in traces]
masked = mask(records, fetch(client, "step-1", records))
assert [type(traces[0])(**each).session_id for each in masked.records] == [
    each["session_id"] for each in records]

def rows(records, case):
    return {name: rewards[name] for name in groups[case]
            if any(each["session_id"] == name for each in records)}

for case in cases:
    tell(case, rows(records, case), rows(masked.kept, case))
print(json.dumps({"case": "all", "version": version("rllm-model-gateway"), "records": len(records),
    "joined": sum(each.joined for each in masked.traces),
    "retries": sum(len(each.missing.get("retry", ())) for each in masked.traces)}))
"""

PROGRAMS = {"agentlightning": COMMON + LIGHTNING, "rllm-model-gateway": COMMON + RLLM}
PLACES = {"engine": "between gateway and engine", "agent": "between agent and gateway"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What a package's trainer gets of each group, before and after the mask, and of all."""

    rows: Mapping[Strike, Row]
    all: Row

    def rewards(self, strike: Strike, when: str) -> list[float]:
        return list(self.rows[strike][when])


def played(package: str, place: str, home: Path) -> Played:
    port = closed_port()
    gateway = f"http://127.0.0.1:{port}"
    settings = {"UPSTREAM_AGL": gateway, "UPSTREAM_RLLM": gateway}
    with (
        Provider(engine) as provider,
        Service(home, provider.url, UPSTREAM_VLLM=provider.url, **settings) as service,
    ):
        names = ",".join(strike.name for strike in Strike)
        words = (place, service.url, str(port), provider.url)
        ran = execute("gateways", PROGRAMS[package], home / "run", names, *words)
    assert ran.code == 0, ran.stdout[-3000:] + ran.stderr[-6000:]
    rows = {Strike[row["case"]]: row for row in ran.rows if row["case"] in Strike.__members__}
    return Played(rows=rows, all=ran.rows[-1])


Packages = Mapping[str, Played]
"""What was played in each place."""


def everywhere(package: str, homes: pytest.TempPathFactory) -> Packages:
    """Play a package in both places at once: each waits for the other programs most of the time."""
    made = list(map(homes.mktemp, PLACES))  # not in threads, which would each make the first folder
    with ThreadPoolExecutor(len(PLACES)) as pool:
        ran = pool.map(partial(played, package), PLACES, made)
        return dict(zip(PLACES, ran, strict=True))


@pytest.fixture(scope="module")
def lightning(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    return everywhere("agentlightning", tmp_path_factory)


@pytest.fixture(scope="module")
def rllm(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    return everywhere("rllm-model-gateway", tmp_path_factory)


@pytest.fixture(params=["lightning", "rllm"])
def package(request: pytest.FixtureRequest) -> Packages:
    """Each package."""
    found: Packages = request.getfixturevalue(request.param)
    return found


# --- what is claimed -------------------------------------------------------------------------


def test_by_itself_a_gateway_gives_every_failure_a_zero(package: Packages) -> None:
    for ran in package.values():
        filled = [ran.rewards(strike, "before") for strike in FAILURES]
        assert filled == [[1.0, 0.0, 0.0, 0.0]] * len(FAILURES)


def test_no_row_is_left_of_a_rollout_that_the_engine_failed(package: Packages) -> None:
    proven = [strike for strike in FAILURES if strike not in SILENT]
    for place, ran in package.items():
        left = [ran.rewards(strike, "after") for strike in proven]
        assert left == [[1.0, 0.0]] * len(proven), place


def test_a_models_own_zeros_stay(package: Packages) -> None:
    for ran in package.values():
        for strike in GENUINE:
            assert ran.rewards(strike, "after") == ran.rewards(strike, "before")
        assert ran.rewards(Strike.WRONG, "after") == [1.0, 0.0, 0.0, 0.0]
        assert {0.0} == {*ran.rewards(Strike.EMPTY, "after")[1:]}


def test_each_answer_that_a_trace_keeps_is_found_on_the_wire(
    lightning: Packages, rllm: Packages
) -> None:
    answered_twice = 4 * len(GENUINE) + 2 * len(FAILURES) + 2 * len((Strike.ABORT, *SILENT))
    joined = 4 * len(Strike) + answered_twice
    found = [lightning["engine"], *rllm.values()]
    assert [ran.all["joined"] for ran in found] == [joined] * len(found)


def test_silent_retries_are_counted_that_no_trace_has(lightning: Packages) -> None:
    """It tries a refused call and one whose connection broke six times, and keeps the last."""
    tried = 2 * 6 * len((*REFUSED, *BROKEN))
    assert lightning["engine"].all["retries"] == tried + 2 * len((Strike.IN_BODY, Strike.MODEL))


def test_a_missing_reward_is_not_filled(lightning: Packages) -> None:
    for ran in lightning.values():
        assert ran.all["unrewarded"] >= len(FAILURES) - 1
        filled, measured = ran.all["val/reward"]
        assert filled == pytest.approx(14 / 48)
        assert measured > 0.45


def test_a_hook_notes_each_rollouts_verdict_in_the_packages_own_store(lightning: Packages) -> None:
    notes = lightning["agent"].all["notes"]
    proven = len(FAILURES) - len(SILENT)
    assert [note["measured"] for note in notes].count(False) == 2 * proven
    assert len(notes) == 4 * len(Strike)
    kinds = {note["kind"] for note in notes if note["measured"] is False}
    assert kinds == {"rate_limit", "provider_error", "model_not_found", "engine_aborted"}


# --- the page --------------------------------------------------------------------------------


def table(name: str, package: Packages) -> str:
    """Rewards of each group's rows, and what its solved rollout is worth before and after."""
    by_place = [package[place] for place in PLACES]

    def cell(rewards: Sequence[float]) -> str:
        return ", ".join(f"{reward:g}" for reward in rewards)

    head = ["engine", f"{name} {by_place[0].all['version']}", *PLACES.values(), "advantage"]
    alike: dict[tuple[str, ...], list[str]] = {}
    for strike in Strike:
        worth = [made[0] for made in by_place[1].rows[strike]["advantages"]]
        cells = (
            cell(by_place[1].rewards(strike, "before")),
            *(cell(ran.rewards(strike, "after")) for ran in by_place),
            " → ".join(f"{each:.2f}" for each in worth),
        )
        alike.setdefault(cells, []).append(strike)
    lines = [head, ["---"] * len(head)]
    lines += [[", ".join(names), *cells] for cells, names in alike.items()]
    if "val/reward" in by_place[0].all:
        after = (ran.all["val/reward"][1] for ran in by_place)
        means = [f"{mean:.2f}" for mean in (by_place[0].all["val/reward"][0], *after)]
        lines.append(["mean of all, as it reports it", *means, ""])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines).replace("| --- ", "|---")


def test_the_page_shows_what_the_gateways_rows_were_worth(
    lightning: Packages, rllm: Packages
) -> None:
    put_on_page("agentlightning", lambda _: table("agentlightning", lightning))
    put_on_page("rllm-model-gateway", lambda _: table("rllm-model-gateway", rllm))

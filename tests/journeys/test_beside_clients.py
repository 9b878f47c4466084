"""MASEval, verifiers, mini-SWE-agent and LiteLLM's client fare beside truezero as without it.

Part of `make integrations`, which writes the tables to docs/measurements/integrations.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.provider import Request
from tests.journeys.failing import Case
from tests.journeys.harnesses import (
    AWAY,
    ENVIRONMENTS,
    HALVES,
    Beside,
    Condition,
    Ran,
    Row,
    Setup,
)
from tests.journeys.test_agent_harness_failures import MINI, VERIFIERS, works
from tests.journeys.test_harness_failures import MASEVAL
from tests.journeys.test_integrations import SWEBENCH_CONFIG

pytestmark = [
    pytest.mark.skipif(not ENVIRONMENTS, reason="real harnesses are run by `make integrations`"),
    pytest.mark.timeout(1800),
]

# A harness of a few lines: three calls a task, errors ignored, 1.0 if the last answer came.
LITELLM = """
import asyncio, contextlib, json, sys
import litellm
from importlib.metadata import version

cases, ours, url, rollouts = sys.argv[1].split(","), sys.argv[2] == "ours", sys.argv[3], sys.argv[4]
if ours:
    from truezero.integrations.litellm import Truezero
    litellm.callbacks.append(Truezero())
batch = None
if ours and rollouts == "rollouts":
    from truezero import Client
    batch = Client().batch("b")

async def solve(case):
    said = ""
    for turn in (1, 2, 3):
        try:
            answer = await litellm.acompletion(
                model="openai/gpt-5", api_base=url, max_retries=0, stream=True,
                messages=[{"role": "user", "content": f"case:{case} turn:{turn}"}])
            said = "".join([part.choices[0].delta.content or "" async for part in answer])
        except Exception:
            said = ""
    return float(case != "WRONG" and "zero is true" in said)

async def main():
    for case in cases:
        with batch.rollout(case) if batch else contextlib.nullcontext() as rollout:
            score = await solve(case)
            kept = rollout.finish(rewards={"score": score}).rewards if rollout else {"score": score}
        print(json.dumps({"case": case, "own": score, "kept": kept and kept["score"],
                          "version": version("litellm")}), flush=True)
asyncio.run(main())
"""


def maseval(setup: Setup, home: Path) -> Ran:
    return setup.run("maseval", MASEVAL, home, "1")


def verifiers(setup: Setup, home: Path) -> Ran:
    words = () if setup.mode == "stock" else ("addressed",)  # an address for each trace
    return setup.run("verifiers", VERIFIERS, home, *words)


def mini_swe_agent(setup: Setup, home: Path) -> Ran:
    mode = "stock" if setup.condition in HALVES else None

    def begun(folder: Path) -> None:
        (folder / "config.yaml").write_text(SWEBENCH_CONFIG)

    return setup.run("mini_swe_agent", MINI, home, "1", mode=mode, begun=begun)


def litellm(setup: Setup, home: Path) -> Ran:
    word = "alone" if setup.condition in HALVES[1:] else "rollouts"  # there it is only installed
    return setup.run("mini_swe_agent", LITELLM, home, word)


def patch(row: Row) -> str:
    if row["patch"] is None:
        return "no result"
    return "a patch" if row["patch"] else "empty patch"


def second_call_of_ok(request: Request) -> bool:
    return b"case:OK" in request.body and b'"role":"assistant"' in request.body.replace(b" ", b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """How a harness is run, and what it makes of each condition.

    ``harness`` has its environment. ``away``: how its last line begins without a service, ``half``
    that of its only one where it is half set up, in the conditions ``untouched``. ``killed``: its
    cells where the service is killed midway, ``code`` its exit code and ``said`` parts of its lines
    then. ``written``: the columns of its table.
    """

    harness: str
    runs: Callable[[Setup, Path], Ran]
    score: Callable[[Row], str]
    away: str
    killed: tuple[str, str, str]
    code: int | None = None
    half: str = ""
    untouched: Sequence[Condition] = (Condition.HALF,)
    said: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    written: Sequence[Condition] = (Condition.HALF, *AWAY, Condition.KILLED)


TOLD = {
    "maseval": Told(
        harness="maseval", runs=maseval,
        score=lambda row: f"score {row['eval'][0]['score']}" if row["eval"] else "no score",
        away="truezero.sdk.errors.ServiceError: no task was run: ",
        half="task OK: no call came through truezero, MASEval's own score is kept",
        killed=("score 1.0", "no score", "no score"),
        said=("cannot reach a truezero service at",
              "2 of 3 repetitions not measured: truezero service away (2); more with",
              "no measurement card was written: cannot reach a truezero service"),
    ),
    "verifiers": Told(
        harness="verifiers", runs=verifiers,
        score=lambda row: "no reward" if row["reward"] is None else f"reward {row['reward']}",
        away="truezero.sdk.errors.ServiceError: ",
        half="no call came through truezero, rewards stay as they are",
        killed=("reward 1.0", "no reward", "no result"), code=1,
    ),
    "mini_swe_agent": Told(
        harness="mini_swe_agent", runs=mini_swe_agent,
        score=patch,
        away="truezero: no instance was run: ",
        untouched=(Condition.HALF, Condition.HALF_DOWN),
        killed=("empty patch", "no result", "no result"), code=1,
        said=("outcomes wait for it",
              "truezero: 2 of 3 instances not measured: truezero service away (2);"),
        options={  # the service is killed while `ok` is worked on
            "script": works, "midway": second_call_of_ok,
            "cases": (Case.WRONG, Case.OK, Case.AUTH),
        },
    ),
    "litellm": Told(
        harness="mini_swe_agent", runs=litellm, score=lambda row: f"score {row['own']}",
        away="truezero.sdk.errors.ServiceError: ", untouched=HALVES,
        killed=("score 1.0", "no result", "no result"),
        written=(*HALVES[:2], *AWAY, Condition.KILLED),
    ),
}  # fmt: skip


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.harness(told.harness))
            for name, told in TOLD.items()],
)  # fmt: skip
def name(request: pytest.FixtureRequest) -> str:
    """Each harness."""
    return str(request.param)


@pytest.fixture(scope="module")
def told(name: str) -> Told:
    return TOLD[name]


@pytest.fixture(scope="module")
def beside(name: str, told: Told, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    yield Beside(name, told.runs, told.score, tmp_path_factory.mktemp(name), **told.options)


@pytest.mark.parametrize("condition", AWAY)
def test_nothing_is_run_without_a_service_and_one_sentence_says_why(
    beside: Beside, told: Told, condition: Condition
) -> None:
    ran = beside[condition]
    assert (ran.code, ran.calls, ran.rows) == (1, 0, [])
    last = ran.stderr.strip().splitlines()[-1]
    assert (ran.said[-1] if told.away.startswith("truezero: ") else last).startswith(told.away)
    assert ran.visits in (None, 1), "it is asked once"


def test_half_set_up_it_is_untouched_and_that_is_said_once(beside: Beside, told: Told) -> None:
    for condition in told.untouched:
        assert beside.untouched(condition), (condition, beside.cells(condition))
        said = beside[condition].said
        assert len(said) == bool(told.half), condition
        assert all(line.startswith(told.half) for line in said), condition
        if not told.half:
            assert beside[condition].visits in (None, 0), "a callback asks nobody"


def test_what_was_done_before_the_service_was_killed_keeps_its_score_and_no_other_has_one(
    beside: Beside, told: Told
) -> None:
    ran = beside[Condition.KILLED]
    assert tuple(beside.cells(Condition.KILLED).values()) == told.killed
    for part in told.said:
        assert [line for line in ran.said if part in line], part
    assert told.code in (None, ran.code)


def test_the_page_shows_it_beside_truezero(beside: Beside, told: Told) -> None:
    version = next(r["version"] for r in beside[Condition.ALONE].rows if "version" in r)
    beside.write(*told.written, version=version)

"""LiteLLM's client with our callback, alone and beside truezero in each condition.

Part of `make integrations`, which writes the table to docs/measurements/integrations.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journeys.harnesses import AWAY, ENVIRONMENTS, HALVES, Beside, Condition, Ran, Row, Setup

pytestmark = [
    pytest.mark.harness("mini_swe_agent"),
    pytest.mark.skipif(not ENVIRONMENTS, reason="real clients are run by `make integrations`"),
    pytest.mark.timeout(1800),
]

# A harness of a few lines: three calls a task, errors ignored, 1.0 if the last answer came.
PROGRAM = """
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


def runs(setup: Setup, home: Path) -> Ran:
    away = HALVES[1:]  # there the callback is merely installed
    word = "alone" if setup.condition in away else "rollouts"
    return setup.run("mini_swe_agent", PROGRAM, home, word)


def score(row: Row) -> str:
    return f"score {row['own']}"


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Beside:
    return Beside("litellm", runs, score, tmp_path_factory.mktemp("beside"))


@pytest.mark.parametrize("condition", HALVES)
def test_calls_to_another_server_are_untouched(beside: Beside, condition: Condition) -> None:
    assert beside.untouched(condition), beside.cells(condition)
    assert beside[condition].said == []
    assert beside[condition].visits in (None, 0), "a callback asks nobody"


@pytest.mark.parametrize("condition", AWAY)
def test_a_rollout_does_not_begin_without_a_service(beside: Beside, condition: Condition) -> None:
    ran = beside[condition]
    assert (ran.code, ran.calls, ran.rows) == (1, 0, [])
    assert ran.stderr.strip().splitlines()[-1].startswith("truezero.sdk.errors.ServiceError: ")


def test_a_rollout_under_which_the_service_was_killed_has_no_score(beside: Beside) -> None:
    assert list(beside.cells(Condition.KILLED).values()) == ["score 1.0", "no result", "no result"]


def test_the_page_shows_litellm_beside_truezero(beside: Beside) -> None:
    version = beside[Condition.ALONE].rows[0]["version"]
    beside.write(*HALVES[:2], *AWAY, Condition.KILLED, version=version)

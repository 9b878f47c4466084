"""The recipes of docs/guides/optimisers.md on dspy and gepa from PyPI, while the provider fails.

Part of `make integrations`. A prompt is known to be worth 35 or 100: the provider answers 7 of 20
questions, and all of them once the instruction is the best one, which it proposes once. What each
optimiser returns stands in docs/measurements/integrations.md, as it is and with the recipe.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.fakes.provider import Provider
from tests.journeys.graded import CASES, Graded, cell, ends_or_is_healthy
from tests.journeys.harnesses import ENVIRONMENTS, execute, put_on_page, table_by_columns
from tests.journeys.service import ROOT, Service

pytestmark = [
    pytest.mark.harness("optimisers"),
    pytest.mark.skipif(not ENVIRONMENTS, reason="real optimisers are run by `make integrations`"),
    pytest.mark.timeout(1800),
]

PAGE = (ROOT / "docs" / "guides" / "optimisers.md").read_text("utf-8")
RECIPES = {"GEPA": "dspy", "MIPROv2": "dspy", "gepa": "gepa"}

# --- programs --------------------------------------------------------------------------------

# What a recipe's reader has: a program, a metric, examples. `grade` asks a healthy provider.
DSPY = """
import json, os, sys
import dspy
names, mode, base, url = sys.argv[1:5]
examples = [
    dspy.Example(question=f"question {k}", answer=str(2 * k)).with_inputs("question")
    for k in range(60)
]
trainset, valset, testset = examples[:20], examples[20:40], examples[40:]
program = dspy.Predict("question -> answer")

def metric(gold, pred, trace=None, pred_name=None, pred_trace=None):
    return float(gold.answer == pred.answer)

def grade(best):
    healthy = dspy.LM("openai/gpt-5", api_base=base, api_key="sk-healthy-test", cache=False)
    with dspy.context(lm=healthy):
        return dspy.Evaluate(devset=testset, metric=metric, num_threads=4)(best).score

def stock():
    lm = dspy.LM("openai/gpt-5", api_base=base, cache=False)
    dspy.configure(lm=lm)
    return lm
"""
GEPA = """
import json, os, sys
import gepa
names, mode, base, url = sys.argv[1:5]
examples = [
    {"input": f"question {k}", "additional_context": {}, "answer": str(2 * k)} for k in range(60)
]
trainset, valset, testset = examples[:20], examples[20:40], examples[40:]
import httpx

def grade(best):
    right = 0
    for each in testset:
        asked = [{"role": "system", "content": best}, {"role": "user", "content": each["input"]}]
        answer = httpx.post(
            base + "/chat/completions", json={"model": "gpt-5", "messages": asked},
            headers={"authorization": "Bearer sk-healthy-test"},
        )
        right += each["answer"] == answer.json()["choices"][0]["message"]["content"]
    return 100 * right / len(testset)

os.environ["OPENAI_BASE_URL"] = os.environ["OPENAI_API_BASE"] = base
"""
RUN = """
for name in names.split(","):
    os.environ["OPENAI_API_KEY"] = f"sk-{name}-{mode}-{which}"
    try:
        score = grade(optimise())
    except Exception as error:
        score = type(error).__name__
    print("\\n" + json.dumps({"case": name, "score": score}), flush=True)
"""


def snippets(heading: str) -> list[str]:
    """The code below a heading of the page."""
    part = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", part, re.DOTALL)


def indented(code: str) -> str:
    return "".join(f"    {line}" for line in code.splitlines(keepends=True))


def program_of(which: str, mode: str) -> str:
    """The program of an optimiser, which a recipe makes ours."""
    set_up, *optimisers = snippets(RECIPES[which])
    if which == "gepa":
        stock = "\n\n\n".join(["import gepa", set_up[set_up.index("result = ") :]])
        stock = stock.replace("=measured,", '="openai/gpt-5",')
        begin, code, best = GEPA, set_up, 'result.best_candidate["system"]'
        code = stock if mode == "stock" else set_up
    else:
        [optimiser] = [each for each in optimisers if f"dspy.{which}(" in each]
        begin, best = DSPY, "best"
        code = ("lm = stock()\n" if mode == "stock" else set_up) + optimiser
        code = code.replace("task_model=lm,", "task_model=lm, auto=None, num_candidates=3,")
        code = code.replace(
            "valset=valset)\n",
            "valset=valset, num_trials=6, minibatch=False, max_bootstrapped_demos=0, "
            "max_labeled_demos=0)\n"
            if which == "MIPROv2"
            else "valset=valset)\n",
        )
    optimise = f"which = {which!r}\ndef optimise():\n{indented(code)}\n    return {best}\n"
    return begin + optimise + RUN


# --- what they return ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, str]]]:
    """What each optimiser returned, by column and case."""
    home, found = tmp_path_factory.mktemp("optimisers"), dict[str, dict[str, str]]()
    (home / "service").mkdir()
    with Provider(Graded()) as provider, Service(home / "service", provider.url) as service:
        for which in RECIPES:
            words = f"{provider.url}/v1", service.url
            text = program_of(which, "stock")
            ran = execute("optimisers", text, home / which, ",".join(CASES), "stock", *words)
            assert ran.code == 0, ran.stderr[-5000:]
            found[which] = {row["case"]: cell(row["score"]) for row in ran.rows}
            found[f"{which} with truezero"] = ours = dict[str, str]()
            with ThreadPoolExecutor(3) as threads:
                ours.update(
                    zip(CASES, threads.map(partial(_ours, which, home, words), CASES), strict=True)
                )
    yield found


def _ours(which: str, home: Path, words: tuple[str, str], case: str) -> str:
    """What an optimiser with the recipe returns in a case."""
    text = program_of(which, "ours").replace('"tune-7"', repr(f"{which}-{case}"))
    home, environment = home / f"{which}-{case}", {"TRUEZERO_URL": words[1]}
    ran = execute("optimisers", text, home, case, "ours", *words, environment=environment)
    why = re.search(r"call is not measured: .*", ran.stderr)
    assert (ran.code == 0) == (why is None), ran.stderr[-5000:]
    return cell(why[0] if why else ran.rows[0]["score"])


@pytest.mark.parametrize("which", RECIPES)
def test_an_optimiser_returns_what_it_returns_of_a_healthy_provider_or_ends(
    which: str, measured: dict[str, dict[str, str]]
) -> None:
    ours = measured[f"{which} with truezero"]
    assert measured[which]["healthy"] == ours["healthy"] == "100"
    ends_or_is_healthy(ours)


def test_gepa_returns_the_prompt_that_it_was_given_after_an_outage(
    measured: dict[str, dict[str, str]],
) -> None:
    assert measured["GEPA"]["outage"] == measured["GEPA"]["auth"] == "35"


def test_what_they_return_stands_on_the_page(measured: dict[str, dict[str, str]]) -> None:
    columns = {name: [cells[case] for case in CASES] for name, cells in measured.items()}
    put_on_page("optimisers", lambda _: table_by_columns([*CASES.values()], columns))


CACHE = """
import sys
import dspy

how, base = sys.argv[1:3]
shared = dspy.LM("openai/gpt-5", api_base=base + "/v1", cache=True)
for rollout in ("a", "b", "a"):
    if how == "headers":
        own = shared.copy(extra_headers={"x-truezero-key": rollout})
    else:
        own = shared.copy(api_base=f"{base}/{rollout}/v1")
    with dspy.context(lm=own):
        dspy.Predict("question -> answer")(question="question 3")
"""


@pytest.mark.parametrize("how, calls", [("headers", 2), ("address", 1)])
def test_dspys_cache_compares_headers_and_no_address(how: str, calls: int, tmp_path: Path) -> None:
    with Provider(Graded()) as provider:
        environment = {"OPENAI_API_KEY": "sk-healthy-cache"}
        ran = execute(
            "optimisers", CACHE, tmp_path / "run", how, provider.url, environment=environment
        )
        assert (ran.code, len(provider.requests)) == (0, calls), ran.stderr[-3000:]


def test_a_loop_of_ones_own_scores_what_was_measured(tmp_path: Path) -> None:
    (recipe,) = snippets("A loop of your own")
    asked = (
        'print(json.dumps({"score": score("a", "", "question 3", "6")}))\n'
        'os.environ["OPENAI_API_KEY"] = "sk-auth-loop"\n'
        "try:\n"
        '    score("b", "", "question 4", "8")\n'
        "except truezero.NotMeasured as error:\n"
        '    print(json.dumps({"score": str(error)}))\n'
    )
    (tmp_path / "service").mkdir()
    with Provider(Graded()) as provider, Service(tmp_path / "service", provider.url) as service:
        text = "import json\n" + recipe + asked
        environment = {"TRUEZERO_URL": service.url, "OPENAI_API_KEY": "sk-rate-loop"}
        ran = execute("optimisers", text, tmp_path / "run", environment=environment)
    assert [cell(row["score"]) for row in ran.rows] == ["1", "ends: the key was refused"], ran

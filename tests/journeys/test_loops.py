"""The other recipes of docs/guides/optimisers.md, each in its package from PyPI.

Part of `make integrations`. NeMo Evaluator and lm-eval score 15 questions of which 10 are to be
answered right; what they score while the provider fails stands in
docs/measurements/integrations.md, as they are and with the recipe.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.fakes.provider import Provider
from tests.journeys.failing import Case, plays
from tests.journeys.graded import BEST, CASES, Graded, cell, ends_or_is_healthy
from tests.journeys.harnesses import (
    ENVIRONMENTS,
    SWALLOWING,
    execute,
    put_on_page,
    table_by_columns,
)
from tests.journeys.service import Service
from tests.journeys.test_optimisers import snippets

pytestmark = [
    pytest.mark.skipif(not ENVIRONMENTS, reason="real packages are run by `make integrations`"),
    pytest.mark.timeout(1800),
]

TASK = f"""
import asyncio, json, os, sys
name, mode, base, url = sys.argv[1:5]
key = os.environ["OPENAI_API_KEY"] = f"sk-{{name}}-{{mode}}"
rows = [
    {{"q": f"question {{k}}: {BEST}", "answer": "none" if k % 3 == 0 else str(2 * k)}}
    for k in range(15)
]
"""
ENDS = """
except Exception as error:
    said = " ".join(str(error).split())
    print(json.dumps({"case": name, "score": said}))
"""

NEMO = """
from nemo_evaluator import benchmark, exact_match, scorer

@benchmark(name="doubles", dataset=lambda: rows, prompt="{q}", target_field="answer")
@scorer
def score(sample):
    return exact_match(sample)
"""
NEMO_STOCK = """
from nemo_evaluator import ChatSolver, ModelClient, get_environment, run_evaluation

async def evaluate(benchmark):
    solver = ChatSolver(ModelClient(base, "gpt-5", key))
    return await run_evaluation(get_environment(benchmark), solver)
"""
NEMO_RUN = """
try:
    scores = asyncio.run(evaluate("doubles"))["benchmark"]["scores"]
    print(json.dumps({"case": name, "score": scores["pass@1"]["value"]}))
"""

LM_EVAL = """
from pathlib import Path
import lm_eval
from lm_eval.tasks import TaskManager

Path("rows.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
Path("doubles.yaml").write_text(f'''
task: doubles
dataset_path: json
dataset_kwargs: {{data_files: {{test: {Path.cwd()}/rows.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{q}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["\\\\n"], max_gen_toks: 64}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
''')
tasks = TaskManager(include_path=str(Path.cwd()), include_defaults=False).load(["doubles"])["tasks"]
tasks = list(tasks.values())
"""
LM_EVAL_STOCK = """
from lm_eval.models.openai_completions import LocalChatCompletion
model = LocalChatCompletion(base_url=base + "/chat/completions", model="gpt-5")
"""
LM_EVAL_RUN = """
try:
{call}
    score = results["results"]["doubles"]["exact_match,none"]
    print(json.dumps({{"case": name, "score": round(score, 4)}}))
"""


def programs() -> Mapping[str, Mapping[str, str]]:
    """The program of each harness, as it is and with the page's recipe."""
    (nemo,) = snippets("NeMo Evaluator")
    lm_eval, call = snippets("lm-eval")
    run = LM_EVAL_RUN.format(call=f"    {call.strip()}")
    return {
        "nemo_evaluator": {
            "stock": TASK + NEMO + NEMO_STOCK + NEMO_RUN + ENDS.lstrip("\n"),
            "ours": TASK + NEMO + nemo + NEMO_RUN + ENDS.lstrip("\n"),
        },
        "heavy": {
            "stock": TASK + LM_EVAL + LM_EVAL_STOCK + run + ENDS.lstrip("\n"),
            "ours": TASK + LM_EVAL + lm_eval + run + ENDS.lstrip("\n"),
        },
    }


TABLES = {"nemo_evaluator": "nemo-evaluator 0.3.0", "heavy": "lm-eval 0.4.13"}


def scores(harness: str, home: Path) -> Iterator[Mapping[str, Mapping[str, str]]]:
    """What a harness scores in each case, by mode."""
    found: dict[str, dict[str, str]] = {"stock": {}, "ours": {}}
    (home / "service").mkdir()
    with Provider(Graded()) as provider, Service(home / "service", provider.url) as service:
        for mode, text in programs()[harness].items():
            of_case = partial(_score, harness, mode, text, home, provider.url, service.url)
            with ThreadPoolExecutor(3) as threads:
                found[mode] = dict(zip(CASES, threads.map(of_case, CASES), strict=True))
    yield found


def _score(
    harness: str, mode: str, text: str, home: Path, provider: str, service: str, case: str
) -> str:
    text = re.sub(r'"(nemo|lm-eval)-7"', repr(f"{harness}-{case}"), text)
    words, environment = (case, mode, f"{provider}/v1", service), {"TRUEZERO_URL": service}
    ran = execute(harness, text, home / f"{mode}-{case}", *words, environment=environment)
    assert ran.rows, ran.stdout[-2000:] + ran.stderr[-5000:]
    return cell(ran.rows[0]["score"])


@pytest.fixture(scope="module")
def nemo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Mapping[str, str]]]:
    yield from scores("nemo_evaluator", tmp_path_factory.mktemp("nemo"))


@pytest.fixture(scope="module")
def lm_eval(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Mapping[str, str]]]:
    yield from scores("heavy", tmp_path_factory.mktemp("lm-eval"))


def put(harness: str, found: Mapping[str, Mapping[str, str]]) -> None:
    names = {"stock": TABLES[harness], "ours": "with truezero"}
    columns = {names[mode]: [cells[case] for case in CASES] for mode, cells in found.items()}
    put_on_page(f"{harness} loop", lambda _: table_by_columns([*CASES.values()], columns))


@pytest.mark.harness("nemo_evaluator")
def test_nemo_evaluator_scores_answers_or_ends(nemo: Mapping[str, Mapping[str, str]]) -> None:
    assert nemo["stock"]["healthy"] == "0.6667"
    assert nemo["stock"]["auth"] == "0", "an infra_error is 0.0 inside pass@1"
    ends_or_is_healthy(nemo["ours"])
    put("nemo_evaluator", nemo)


@pytest.mark.harness("heavy")
def test_lm_eval_scores_answers_or_ends(lm_eval: Mapping[str, Mapping[str, str]]) -> None:
    if not Path(ENVIRONMENTS or "", "heavy", ".ready").exists():
        pytest.skip("by `make integrations MORE=heavy`")
    assert lm_eval["stock"]["healthy"] == "0.6667"
    ends_or_is_healthy(lm_eval["ours"])
    put("heavy", lm_eval)


# --- a task that somebody else wrote ---------------------------------------------------------

THEIRS = (
    SWALLOWING
    + """
import json, os, sys
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
cases, url = sys.argv[1].split(","), sys.argv[2]

@task
def their_task():
    samples = [
        Sample(id=each, input=f"case:{each} turn:1", target="no" if each == "WRONG" else "zero")
        for each in cases
    ]
    return Task(dataset=samples, solver=swallowing(), scorer=includes())
"""
)
INSPECT_STOCK = """
from inspect_ai import eval
[log] = eval(their_task(), model="openai/gpt-5", model_base_url=url + "/v1", max_retries=0)
"""
INSPECT_SCORE = """
print(json.dumps({"score": log.results.scores[0].metrics["accuracy"].value}))
"""


@pytest.mark.harness("inspect_ai")
def test_a_task_of_somebody_else_keeps_no_false_zero(tmp_path: Path) -> None:
    (recipe,) = snippets("Inspect tasks of others")
    recipe = recipe.replace("fail_on_error=False", "fail_on_error=False, max_retries=0")
    cases = (Case.OK, Case.WRONG, Case.AUTH, Case.QUOTA, Case.OUTAGE)
    names, quiet = ",".join(case.name for case in cases), {"INSPECT_DISPLAY": "none"}
    (tmp_path / "service").mkdir()
    with Provider(plays) as provider, Service(tmp_path / "service", provider.url) as service:
        stock = execute(
            "inspect_ai", THEIRS + INSPECT_STOCK + INSPECT_SCORE, tmp_path / "stock", names,
            provider.url, environment=quiet,
        )  # fmt: skip
        ours = execute(
            "inspect_ai", THEIRS + recipe + INSPECT_SCORE, tmp_path / "ours", names, service.url,
            environment={**quiet, "TRUEZERO_URL": service.url},
        )  # fmt: skip
    assert [row["score"] for row in stock.rows] == [0.2], stock.stderr[-3000:]
    assert [row["score"] for row in ours.rows] == [0.5], ours.stderr[-3000:]

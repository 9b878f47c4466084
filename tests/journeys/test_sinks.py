"""The recipes of docs/guides/sinks.md run with the tools' own packages: `make integrations`.

MLflow keeps what it is told itself, in a folder. Phoenix's and Langfuse's clients send to a server
on loopback, which keeps what it is posted. The service's client is a stand-in with two verdicts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import answers
from tests.fakes.provider import Answer, Provider, Request
from tests.journeys.harnesses import ENVIRONMENTS
from tests.journeys.service import ROOT
from tests.journeys.test_integrations import run
from tests.truezero.integrations.told import FOUND, told

pytestmark = [
    pytest.mark.harness("sinks"),
    pytest.mark.skipif(not ENVIRONMENTS, reason="real packages are run by `make integrations`"),
    pytest.mark.timeout(300),
]

PAGE = (ROOT / "docs" / "guides" / "sinks.md").read_text("utf-8")
VERDICTS, PHOENIX, LANGFUSE, MLFLOW = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
VERDICT = told("401", FOUND)
GIVEN = {"r1": VERDICT, "r2": told("200", final=False)}

BEGIN = """
import json, os, sys
from types import SimpleNamespace

import truezero
from truezero import models

stored = json.loads(sys.argv[1])
GIVEN = {name: models.Verdict.model_validate(each) for name, each in stored.items()}
os.environ.update(json.loads(sys.argv[2]))

class Client:
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def rollouts(self, *, batch):
        assert batch == "nightly"
        return [SimpleNamespace(id=name) for name in GIVEN]
    def verdict(self, name): return GIVEN[name]

truezero.Client = Client
"""

LOGGED = """
mlflow.set_tracking_uri("file:" + os.getcwd() + "/runs")
mlflow.set_experiment("e")
with mlflow.start_span("rollout") as span:
    pass
mlflow.flush_trace_async_logging()
for verdict in verdicts:
    log(verdict, span.trace_id)
for each in mlflow.get_trace(span.trace_id).info.assessments:
    told = each.to_dictionary()
    print(json.dumps({
        "name": told["assessment_name"], "feedback": told["feedback"], "source": told["source"],
        "rationale": told.get("rationale"), "metadata": told["metadata"],
    }))
"""


def cooked(recipe: str, home: Path, **variables: str) -> list[dict[str, Any]]:
    """Run a recipe behind the page's first one; return what it prints, in lines of JSON."""
    given = {name: verdict.model_dump(mode="json") for name, verdict in GIVEN.items()}
    words = json.dumps(given), json.dumps(variables)
    return [
        json.loads(line)
        for line in run("sinks", BEGIN + VERDICTS + recipe, *words, url="", home=home)
    ]


@contextmanager
def server(answer: dict[str, Any]) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """A server that keeps what it is posted, and always answers the same."""
    posted: list[tuple[str, Any]] = []

    def answering(request: Request) -> Answer:
        if request.method == "GET":
            return Answer(body=(b"20.26.1",))  # Phoenix's client asks for its server's version
        posted.append((request.target, json.loads(request.body)))
        return answers.whole(answer)

    with Provider(answering) as running:
        yield running.url, posted


def test_mlflow_gives_back_what_it_was_told(tmp_path: Path) -> None:
    lines = cooked(MLFLOW + LOGGED, tmp_path, MLFLOW_ALLOW_FILE_STORE="true")
    read = {each["name"]: each for each in lines}
    assert len(lines) == len(read) == 2, "a provisional verdict is none yet"
    health, finding = read["truezero.health"], read["truezero.validity.starved"]
    assert health["feedback"]["value"] == "api_error"
    assert health["feedback"]["error"]["error_code"] == "auth:401"
    assert health["rationale"] == VERDICT.error
    assert health["metadata"] == {
        "batch": "nightly", "rule": VERDICT.rule, "cause": VERDICT.cause,
        "evidence": ",".join(VERDICT.evidence), "rollout": "r1",
    }  # fmt: skip
    assert health["source"] == {"source_type": "CODE", "source_id": "truezero"}
    assert (finding["feedback"]["value"], finding["rationale"]) == ("suspect", "it waited")
    assert "error" not in finding["feedback"]


def test_phoenix_is_sent_annotations_of_the_rollouts_session(tmp_path: Path) -> None:
    with server({"data": []}) as (url, posted):
        cooked(PHOENIX, tmp_path, PHOENIX_COLLECTOR_ENDPOINT=url)
    ((path, body),) = posted
    assert path == "/v1/session_annotations?sync=true"
    health, finding = body["data"]
    assert health == {
        "session_id": "r1", "name": "truezero.health", "annotator_kind": "CODE",
        "identifier": "truezero",
        "result": {"label": "api_error", "score": 0.0, "explanation": VERDICT.error},
        "metadata": {"batch": "nightly", "rule": VERDICT.rule, "cause": VERDICT.cause,
                     "evidence": ",".join(VERDICT.evidence)},
    }  # fmt: skip
    assert finding["result"] == {"label": "suspect", "explanation": "it waited"}


def test_langfuse_is_sent_scores_of_the_rollouts_session(tmp_path: Path) -> None:
    keys = {"LANGFUSE_PUBLIC_KEY": "p", "LANGFUSE_SECRET_KEY": "s"}
    with server({"results": [], "id": "s"}) as (url, posted):
        cooked(LANGFUSE, tmp_path, LANGFUSE_BASE_URL=url, **keys)
    ((path, (health, finding)),) = posted
    assert path == "/api/public/scores"
    assert health == {
        "id": "r1:truezero.health", "sessionId": "r1", "name": "truezero.health",
        "value": "api_error", "dataType": "CATEGORICAL", "comment": VERDICT.error,
        "timestamp": "1970-01-01T00:01:40Z",
        "metadata": {"batch": "nightly", "rule": VERDICT.rule, "cause": VERDICT.cause,
                     "evidence": ",".join(VERDICT.evidence)},
    }  # fmt: skip
    assert (finding["value"], finding["comment"]) == ("suspect", "it waited")

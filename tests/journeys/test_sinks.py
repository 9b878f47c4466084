"""Verdicts read back from the packages of the tools that are told of them: `make integrations`.

MLflow keeps them itself, in a folder. Phoenix's and Langfuse's clients send to a server on loopback
what they would, and that has to be what we send.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.harnesses import ENVIRONMENTS
from tests.journeys.test_integrations import run
from tests.truezero.integrations.told import FOUND, told
from truezero.integrations import langfuse, phoenix

pytestmark = [
    pytest.mark.harness("sinks"),
    pytest.mark.skipif(not ENVIRONMENTS, reason="real packages are run by `make integrations`"),
    pytest.mark.timeout(300),
]

VERDICT = told("401", FOUND)

MLFLOW = """
import json, os, sys
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
import mlflow
from truezero import models
from truezero.integrations.mlflow import log

mlflow.set_tracking_uri("file:" + os.getcwd() + "/runs")
mlflow.set_experiment("e")
with mlflow.start_span("rollout") as span:
    pass
mlflow.flush_trace_async_logging()
log(models.Verdict.model_validate_json(sys.argv[1]), trace_id=span.trace_id)
for each in mlflow.get_trace(span.trace_id).info.assessments:
    told = each.to_dictionary()
    print(json.dumps({
        "name": told["assessment_name"], "feedback": told["feedback"], "source": told["source"],
        "rationale": told.get("rationale"), "metadata": told["metadata"],
    }))
"""

PHOENIX = """
import json, sys
from phoenix.client import Client

client = Client(base_url=sys.argv[1])
client.sessions.log_session_annotations(session_annotations=json.loads(sys.argv[2]), sync=True)
"""

LANGFUSE = """
import json, sys
from langfuse.api import CreateScoreRequest
from langfuse.api.client import LangfuseAPI
from langfuse.api.core import parse_obj_as

scores = [parse_obj_as(CreateScoreRequest, each) for each in json.loads(sys.argv[2])]
assert all(each.session_id and each.data_type for each in scores)
LangfuseAPI(base_url=sys.argv[1], username="p", password="s").scores.create(request=scores)
"""


@contextmanager
def server(answer: dict[str, Any]) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """A server that keeps what it is posted, and always answers the same."""
    posted: list[tuple[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            posted.append((self.path, json.loads(body)))
            self._say(json.dumps(answer))

        def do_GET(self) -> None:
            self._say("20.26.1")  # Phoenix's client asks for its server's version

        def _say(self, text: str) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_address[1]}", posted
    finally:
        running.shutdown()
        running.server_close()


def test_mlflow_gives_back_what_it_was_told(tmp_path: Path) -> None:
    lines = run("sinks", MLFLOW, VERDICT.model_dump_json(), url="", home=tmp_path)
    read = {each["name"]: each for each in map(json.loads, lines)}
    health, finding = read["truezero.health"], read["truezero.validity.starved"]
    assert health["feedback"]["value"] == "api_error"
    assert health["feedback"]["error"]["error_code"] == "auth:401"
    assert (health["rationale"], health["metadata"]["rollout"]) == (VERDICT.error, "r1")
    assert health["source"] == {"source_type": "CODE", "source_id": "truezero"}
    assert (finding["feedback"]["value"], finding["rationale"]) == ("suspect", "it waited")
    assert "error" not in finding["feedback"]


def test_phoenix_client_sends_the_same_annotations(tmp_path: Path) -> None:
    with server({"data": []}) as (url, posted):
        annotations = json.dumps(phoenix.session_annotations(VERDICT))
        run("sinks", PHOENIX, url, annotations, url="", home=tmp_path)
        phoenix.post([VERDICT], url=url)
    theirs, ours = posted
    assert theirs == ours


def test_langfuses_client_reads_our_scores_and_sends_the_same(tmp_path: Path) -> None:
    with server({"results": [], "id": "s"}) as (url, posted):
        scores = json.dumps(langfuse.scores(VERDICT))
        run("sinks", LANGFUSE, url, scores, url="", home=tmp_path)
        langfuse.post([VERDICT], url=url, public_key="p", secret_key="s")
    (path, theirs), (own_path, ours) = posted
    assert own_path == path
    for sent, own in zip(theirs, ours, strict=True):
        at = sent.pop("timestamp"), own.pop("timestamp")
        assert at[0].removesuffix("Z") == at[1].removesuffix("+00:00")
        assert sent == own

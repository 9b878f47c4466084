"""The snippets of the README and the guides, each page's from top to bottom beside a service.

A page has a folder, a service whose providers are played, and the programs that its reader has:
agents that ask once, and a ``pip`` that knows truezero's extras. What needs other packages or a
container is named in `NOT_RUN`, which only gets shorter.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

import truezero
from proxy.settings import load
from tests.fakes import answers
from tests.fakes.provider import Provider, Script
from tests.journeys.service import Service
from tests.truezero.audit import harnesses
from tests.truezero.audit.harnesses import dump, dump_lines
from tests.truezero.audit.scenarios import Scenario
from tests.truezero.audit.test_mask import rllm
from tests.truezero.driving import call

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = {
    "README.md": ROOT / "README.md",
    "index.md": DOCS / "index.md",
    **{f"guides/{page.name}": page for page in sorted((DOCS / "guides").glob("*.md"))},
}
RUN = ("sh", "python", "toml", "env")
READ = ("json", "yaml", "text", "")  # tests/test_docs_site.py reads them; text is what is printed

_HARNESS = "needs the harness; `make integrations` runs it"
_CLIENT = "needs the package; tests/journeys/test_identity.py runs it in `make integrations`"
_SINK = "needs the package; tests/journeys/test_sinks.py runs it in `make integrations`"
_GATEWAY = "needs the trainer; tests/journeys/test_gateways.py runs it in `make integrations`"
_CONTAINERS = "needs a container engine; tests/journeys/test_cluster_files.py reads the files"
# Page → a line of the snippet → why it does not run here.
NOT_RUN: Mapping[str, Mapping[str, str]] = {
    "guides/cluster.md": {
        "docker compose up --build --detach": _CONTAINERS,
        "docker compose build replica-1": _CONTAINERS,
        "python -m tests.cluster": "runs until it is stopped; tests/journeys/test_cluster.py",
        "kubectl apply --filename deploy/kubernetes/": "needs a cluster; `make manifests` reads it",
    },
    "guides/identity.md": {
        "from langchain_openai import ChatOpenAI": _CLIENT,
        "from agents import (": _CLIENT,
        "from pydantic_ai import Agent": _CLIENT,
        "from smolagents import OpenAIModel": _CLIENT,
        "litellm.callbacks.append(Truezero())": _CLIENT,
        "answer = litellm.completion(": _CLIENT,
        "import dspy": _CLIENT,
        "from google.adk.agents import LlmAgent": _CLIENT,
        "from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query": _CLIENT,
        "from lm_eval.api.instance import Instance": _CLIENT,
    },
    "guides/integrations.md": {
        "benchflow eval run …": _HARNESS,
        "export TRUEZERO_BATCH=verified-1": _HARNESS,
        "python -m truezero.integrations.verifiers outputs/my-run --batch night-7": _HARNESS,
        "harbor run … --plugin truezero": _HARNESS,
    },
    "guides/self-hosting.md": {
        "truezero serve --host 0.0.0.0 --certfile /etc/truezero/tls.crt "
        "--keyfile /etc/truezero/tls.key": "listens beyond loopback; tests/features/tls",
        "docker compose stop": "writes into a volume; tests/journeys/test_keeping.py runs it",
    },
    "guides/sinks.md": {
        "from phoenix.client import Client": _SINK,
        "from langfuse.api import CreateScoreRequest": _SINK,
        "import mlflow": _SINK,
    },
    "guides/traces.md": {
        "from agentlightning.hooks import RolloutHooks": _GATEWAY,
        "completed = manager.enqueue_and_wait_until_completed(data, is_train=True)": _GATEWAY,
    },
}
AT_MOST = 25

# Pages with a test of their own that runs them whole.
ELSEWHERE = {
    "README.md": "tests/journeys/test_first_hour.py",
    "guides/optimisers.md": "tests/journeys/test_optimisers.py",
    "guides/your-own-loop.md": "tests/truezero/test_own_loop.py",
}

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Snippet(NamedTuple):
    """Code of a page, with its language."""

    language: str
    code: str

    def has(self, line: str) -> bool:
        return line in (each.strip() for each in self.code.splitlines())


def snippets(page: str) -> list[Snippet]:
    return [Snippet(*found) for found in _FENCE.findall(PAGES[page].read_text("utf-8"))]


def runnable(page: str) -> Iterator[Snippet]:
    for snippet in snippets(page):
        left_out = any(snippet.has(line) for line in NOT_RUN.get(page, ()))
        if snippet.language in RUN and not left_out:
            yield snippet


# --- what a page finds ---------------------------------------------------------------------


@dataclass(frozen=True)
class Reader:
    """Somebody who follows a page: a folder, a service, and an environment that goes on."""

    folder: Path
    service: Service
    names: dict[str, Any]

    def runs(self, snippet: Snippet) -> None:
        code = snippet.code.replace("http://127.0.0.1:8383", self.service.url)
        code = code.replace("localhost:8383", self.service.url.removeprefix("http://"))
        if snippet.language == "python":
            exec(compile(code, "snippet", "exec"), self.names)
        elif snippet.language == "sh":
            self._shell(code)
        elif snippet.language == "toml":
            self._settings(tomllib.loads(code), code)
        else:
            self._variables(code)

    def _shell(self, code: str) -> None:
        """Run commands, and keep what they export for what comes."""
        exported = self.folder / ".exported"
        script = f". {exported}\nset -e\n{code}\nset +e; export -p > {exported}"
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.folder, capture_output=True, text=True,
            timeout=300, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"

    def _settings(self, said: Mapping[str, Any], code: str) -> None:
        """Keep a table of settings as `truezero.toml`; an upstream that it only names is there."""
        named = {row["upstream"] for row in said.get("causes", ()) if "upstream" in row}
        more = [f'[upstreams.{name}]\nurl = "https://llm.example"\n' for name in named]
        file = self.folder / "truezero.toml"
        file.write_text(code + "".join(more), "utf-8")
        load({}, {}, file)

    def _variables(self, code: str) -> None:
        """Read settings that a file `.env` or an environment holds."""
        said = dict(line.split("=", 1) for line in code.splitlines() if line)
        compose = {"TRUEZERO_PORT", "TRUEZERO_REPLICAS"}
        known = {name: value for name, value in said.items() if name not in compose}
        load({"admin_token": "x" * 32}, known, Path(os.devnull))


_AGENT = """#!{python}
import json, os, urllib.request
base, key = os.environ["OPENAI_BASE_URL"], os.environ.get("OPENAI_API_KEY", "sk-good")
asked = {{"model": "gpt-5", "messages": [{{"role": "user", "content": "hello"}}]}}
headers = {{"authorization": f"Bearer {{key}}", "content-type": "application/json"}}
request = urllib.request.Request(f"{{base}}/chat/completions", json.dumps(asked).encode(), headers)
json.load(urllib.request.urlopen(request, timeout=2))
"""
_PIP = """#!{python}
import sys
from packaging.requirements import Requirement
words = [word for word in sys.argv[2:] if word != "-e"]
assert sys.argv[1] == "install" and words
for word in words:
    asked = Requirement(word if not word.startswith(".") else f"truezero{{word[1:]}}")
    assert asked.name == "truezero" and asked.extras <= {extras}, word
"""
_UVX = """#!/bin/sh
test "$1" = --from && pip install "$2" && shift 2 && exec "$@"
"""
# `serve` is started as it stands on a free port, and stopped when it listens.
_TRUEZERO = """#!/bin/bash
export PYTHONPATH={root}
[ "$1" = serve ] || exec {python} -m truezero "$@"
log=$(mktemp -p {folder}); {python} -m truezero "$@" --port 0 > $log 2>&1 & pid=$!
until grep -q "listening on" $log; do
  kill -0 $pid || {{ cat $log; exit 1; }}; sleep 0.1
done
kill $pid; wait $pid; true
"""
# A target that there is; `make demo` in a checkout makes an environment.
_MAKE = """#!/bin/sh
grep -q "^$1:" {root}/Makefile && mkdir -p .venv/bin && touch .venv/bin/activate
"""
# What runs inside a container runs in the folder; nothing else does.
_DOCKER = """#!/bin/bash
case "$2" in
  exec) shift 3; exec "$@";;
  cp) test -e "{folder}/$(basename "$3")";;
  *) true;;
esac
"""
_AGENTS = (
    *("codex", "claude", "opencode", "gemini", "qwen", "mini", "aider", "my-agent"),
    *("agent.sh", "solve.sh", "my_agent.py"),
)


def programs(folder: Path) -> None:
    """Put what the reader has on their path, and agents of their own into the folder."""
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"])  # fmt: skip
    facts = {"python": sys.executable, "root": ROOT, "folder": folder, "extras": extras}
    (folder / "bin").mkdir()
    (folder / "repo").mkdir()
    for name, text in {
        "pip": _PIP, "uvx": _UVX, "truezero": _TRUEZERO, "docker": _DOCKER, "make": _MAKE,
        "python": '#!/bin/sh\nPYTHONPATH={root} exec {python} "$@"\n',
        **dict.fromkeys(_AGENTS, _AGENT),
        "score.sh": "#!/bin/sh\necho 1.0\n",
    }.items():  # fmt: skip
        file = folder / name if "." in name else folder / "bin" / name
        file.write_text(text.format(**facts), "utf-8")
        file.chmod(0o755)


def measured(reader: Reader, batch: str, *rollouts: str) -> None:
    """Measure rollouts of a batch, each with one answered call and a reward."""
    with truezero.Client(reader.service.url) as client:
        for name in rollouts:
            shown = client.register(id=name, batch=batch, task=name, model="gpt-5")
            assert call(shown.base_urls["openai"]) == 200
            client.report(name, rewards=1.0, prompts_executed=1, termination_reason="agent_stop")


def finished_runs(folder: Path) -> None:
    """Leave the files of runs that nothing spoilt."""
    runs = [Scenario(kind="ok", number=n, calls=("ok",), reward=1.0, failed=False) for n in (0, 1)]
    harnesses.benchflow(folder, runs)


def audited(reader: Reader) -> None:
    finished_runs(reader.folder / "jobs" / "2026-11-01")
    row = {"run_id": "a", "result": {"passed": True}, "exception": None, "usage": {"total": 9}}
    dump_lines(reader.folder / "results" / "runs.jsonl", [row])


def swebench(reader: Reader) -> None:
    measured(reader, "verified-1", "django-1")
    report = {"submitted_ids": ["django-1"], "resolved_ids": ["django-1"]}
    dump(reader.folder / "openai__gpt-5.run-1.json", report)


def trace(reader: Reader) -> None:
    dump_lines(reader.folder / "trace.jsonl", rllm("t1", 1))


def measured_trace(reader: Reader) -> None:
    measured(reader, "step-12", "t1")
    trace(reader)


PREPARED: Mapping[str, Callable[[Reader], None]] = {
    "README.md": lambda reader: finished_runs(reader.folder / "results"),
    "guides/audit.md": audited,
    "guides/drill.md": lambda reader: measured(reader, "b", "r1"),
    "guides/integrations.md": swebench,
    "guides/publishing.md": lambda reader: measured(reader, "nightly", "t1", "t2"),
    "guides/rl.md": trace,
    "guides/sinks.md": lambda reader: measured(reader, "nightly", "t1"),
    "guides/traces.md": measured_trace,
}


def my_agent(*_: object, base_url: str) -> float:
    return float(call(base_url) == 200)


@contextlib.contextmanager
def following(
    page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, plays: Script = answers.healthy
) -> Iterator[Reader]:
    """Be a reader of a page, whose variables and folder are the test's own."""
    programs(folder)
    flags = ["--make-token"] if page == "guides/self-hosting.md" else []
    with Provider(plays) as provider, Service(folder, provider.url, flags=flags) as one:
        for name in [each for each in os.environ if each.startswith("TRUEZERO_")]:
            monkeypatch.delenv(name)
        for name, value in {
            "PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": str(folder),
            "TRUEZERO_URL": one.url, "TRUEZERO_DATABASE_URL": str(one.database),
            "TRUEZERO_UPSTREAM_OPENAI": provider.url, "OPENAI_API_KEY": "sk-good", "RUN": "7",
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(folder)
        (folder / ".exported").touch()
        reader = Reader(folder, one, {
            "__name__": "__main__", "truezero": truezero, "httpx": httpx, "url": one.url,
            "ThreadPoolExecutor": ThreadPoolExecutor, "Client": truezero.Client,
            "my_agent": my_agent, "tasks": ["task-1", "task-2"],
            "solve": lambda env: my_agent(base_url=env["OPENAI_BASE_URL"]),
        })  # fmt: skip
        if page in PREPARED:
            PREPARED[page](reader)
        yield reader


WITH_CODE = [page for page in PAGES if any(runnable(page)) and page not in ELSEWHERE]


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE)
def test_a_pages_snippets_run_from_top_to_bottom(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with following(page, tmp_path, monkeypatch) as reader:
        for snippet in runnable(page):
            reader.runs(snippet)


def test_no_snippet_hides_from_being_run() -> None:
    """A snippet is fenced, and says its language."""
    for page, file in PAGES.items():
        prose = _FENCE.sub("", file.read_text("utf-8"))
        assert re.findall(r"^    .*", prose, re.MULTILINE) == [], page
        assert {snippet.language for snippet in snippets(page)} <= {*RUN, *READ}, page


def test_what_does_not_run_is_there_and_gets_less() -> None:
    for page, lines in NOT_RUN.items():
        for line in lines:
            found = [snippet for snippet in snippets(page) if snippet.has(line)]
            assert len(found) == 1, f"{page}: {line}"
    assert sum(map(len, NOT_RUN.values())) <= AT_MOST
    assert [
        page for page, test in ELSEWHERE.items() if page in PAGES and not (ROOT / test).exists()
    ] == []

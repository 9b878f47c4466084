"""The pages on harnesses, identity and sinks: versions are the pinned, and their snippets run."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

import truezero
from classifier.rules import judge
from proxy.features.traces import exporter as events
from tests.builders import rollout
from tests.truezero.integrations.told import FOUND, told

ROOT = Path(__file__).parent.parent.parent.parent
PAGE = (ROOT / "docs" / "guides" / "integrations.md").read_text()
IDENTITY = (ROOT / "docs" / "guides" / "identity.md").read_text()
SINKS = (ROOT / "docs" / "guides" / "sinks.md").read_text()


def test_the_versions_are_those_that_make_integrations_runs() -> None:
    for name, package in (
        ("benchflow", "benchflow"),
        ("harbor", "harbor"),
        ("inspect_ai", "inspect-ai"),
        ("maseval", "maseval"),
        ("mini_swe_agent", "mini-swe-agent"),
        ("verifiers", "verifiers"),
    ):
        pins = (ROOT / "tests" / "journeys" / "integrations" / f"{name}.txt").read_text()
        [version] = re.findall(rf"^{package}==(.+)$", pins, re.MULTILINE)
        assert re.search(rf"^\| \[.+\| ([\d.]+, )*{re.escape(version)}(, [\d.]+)* \|", PAGE, re.M)


def test_the_page_on_identity_names_the_versions_that_make_integrations_runs() -> None:
    pins = {
        name.lower(): version
        for file in ("clients", "heavy", "mini_swe_agent")
        for name, version in re.findall(
            r"^([\w-]+)(?:\[\w+\])?==(.+)$",
            (ROOT / "tests" / "journeys" / "integrations" / f"{file}.txt").read_text(),
            re.MULTILINE,
        )
    }
    tested = re.search(r"^Tested releases: (.+?)\.\n\n", IDENTITY, re.MULTILINE | re.DOTALL)
    assert tested is not None
    rows = re.findall(r"([\w-]+) ([\w.]+)(?:,|$)", tested[1])
    assert len(rows) > 10
    assert dict(rows) == {name: pins[name] for name, _ in rows}


def test_the_snippets_on_identity_that_need_no_other_package_run(url: str) -> None:
    known: dict[str, Any] = {
        "truezero": truezero, "httpx": httpx, "url": url, "ThreadPoolExecutor": ThreadPoolExecutor,
    }  # fmt: skip
    crowd, shared = re.findall(r"```python\n(.*?)```", IDENTITY, re.DOTALL)[:2]
    exec(crowd, known)
    exec(shared, known)

    async def both() -> list[str]:
        async with known["shared"]:
            return list(await asyncio.gather(known["agent"]("a"), known["agent"]("b")))

    with (
        httpx.Client(event_hooks={"request": [truezero.httpx_hook]}) as client,
        truezero.Client(url) as service,
        service.batch("crowd").rollout("t") as rollout,
    ):
        body = {"model": "gpt-5", "messages": []}

        def ask(prompt: str) -> int:
            return client.post(f"{url}/openai/v1/chat/completions", json=body).status_code

        assert known["crowd"](rollout, ask, "abc") == [200] * 3
        assert asyncio.run(both()) == ["The zero is true."] * 2
        rollout.finish(rewards=1.0)
        assert len(service.exchanges(rollout.id)) == 5


def test_the_verdicts_that_sinks_are_told_are_those_of_the_events(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUEZERO_URL", url)
    with truezero.Client(url) as service, service.batch("nightly").rollout("t") as rollout_:
        rollout_.finish(rewards=0.0)
    known: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", SINKS, re.DOTALL)[0], known)
    assert [each.batch for each in known["verdicts"]] == ["nightly"]
    evaluations = known["evaluations"]
    (health,) = evaluations(told("401"))
    event = events.evaluation(judge(rollout("401")))
    assert (health["name"], health["result"], health["error"]) == (
        event["gen_ai.evaluation.name"],
        {
            "label": event["gen_ai.evaluation.score.label"],
            "score": event["gen_ai.evaluation.score.value"],
            "explanation": event["gen_ai.evaluation.explanation"],
        },
        event["error.type"],
    )
    _, finding = evaluations(told("401", FOUND))
    assert (finding["name"], finding["result"]["label"]) == (
        f"{events.VALIDITY}starved", "suspect",
    )  # fmt: skip
    assert evaluations(told("200"))[0]["result"] == {"label": "healthy", "score": 1.0}
    unknown = told("200").model_copy(update={"scoreable": "unknown"})
    assert evaluations(unknown)[0]["result"] == {"label": "healthy"}
    assert evaluations(told("401", FOUND, final=False)) == []

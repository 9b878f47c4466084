"""The comparing of `make wires`, on made-up recordings; and the locked SDKs against the facts."""
# ruff: noqa: SLF001
# Private: one SDK of the watch.

from __future__ import annotations

import copy
import json
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.provider import Provider, Request
from tests.reference_pages import part
from tests.wires import __main__ as wires
from tests.wires import agents, asking, facts, installing, page, private, recorder, recording
from tests.wires.facts import Facts
from tests.wires.reading import read_as, taken

HEADERS = (("Authorization", "Bearer sk-x"), ("acme-version", "2"), ("Accept", "application/json"))
ANSWER = {
    "id": "1", "model": "m", "usage": {"prompt_tokens": 31, "completion_tokens": 5},
    "choices": [{"index": 0, "finish_reason": "stop", "message": {
        "content": "It is.", "tool_calls": [{"id": "c", "function": {"name": "look"}}],
    }}],
}  # fmt: skip
TAKEN = [
    "content", "finish_reason", "input tokens", "model", "output tokens", "response_id",
    "tool calls",
]  # fmt: skip
FIELDS = {"Usage": ["completion_tokens", "prompt_tokens"]}


def asked(way: str = "chat", path: str = "/v1/chat/completions", **body: Any) -> Request:
    sent = {"model": "m", "messages": [{"role": "user", "content": "secret"}]} | body
    target = f"/~{asking.segment(way)}{path}"
    return Request(method="POST", target=target, headers=HEADERS, body=json.dumps(sent).encode())


def failed(tries: int, raises: str = "acme.RateLimited") -> tuple[Any, list[Request]]:
    said = {"raises": raises, "reads": ["code = error.code"], "obeyed": False}
    return {"chat": {"429": said}}, [asked("chat.429")] * tries


def recorded(
    monkeypatch: pytest.MonkeyPatch,
    *requests: Request,
    answer: Any = None,
    fields: Any = None,
    tries: int = 3,
    **said: Any,
) -> Facts:
    """What is recorded of an SDK with one way, ``chat``."""
    monkeypatch.setitem(asking.WAYS, "acme", {"ways": {"chat": []}})
    failures, failing = failed(tries)
    run = {
        "version": "1.0", "types": fields or FIELDS, "failures": failures,
        "timeout": {"read": 600, "connect": None}, "offers": ["/chat/completions"],
        "ways": {"chat": {"types": ["Completion"], "answers": [answer or ANSWER]}},
    }  # fmt: skip
    return recording.facts("acme", run | said, [*(requests or [asked()]), *failing], "2026-11-29")


def test_the_same_recording_does_not_differ_and_survives_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now = recorded(monkeypatch)
    facts.keep(now, tmp_path)
    kept = facts.kept(tmp_path)["acme"]
    assert kept == now
    assert facts.differences(kept, {**now, "version": "1.1", "seen": "2027-01-01"}) == []


OTHERWISE: Any = {
    "an added path": (
        {"requests": [asked(), asked(path="/v1/decisions")]},
        ["acme 1.0: ways, chat, asks: – → POST /v1/decisions (unread)"],
    ),
    "a moved path": (
        {"requests": [asked(path="/v2/answers")]},
        [
            "acme 1.0: ways, chat, asks: POST /v1/chat/completions → POST /v2/answers (unread)",
        ],
    ),
    "a field of the body": (
        {"requests": [asked(thinking={"type": "adaptive"})]},
        ["acme 1.0: ways, chat, body: – → thinking.type"],
    ),
    "a renamed field": (
        {"fields": {"Usage": ["completion_tokens", "input_tokens"]}},
        ["acme 1.0: types, Usage: prompt_tokens → input_tokens"],
    ),
    "a usage that the proxy finds no more": (
        {"answer": {**ANSWER, "usage": {"tokens_in": 31, "completion_tokens": 5}}},
        [
            "acme 1.0: ways, chat, not_in_types: – → input tokens",
            "acme 1.0: ways, chat, reads: input tokens → –",
        ],
    ),
    "changed retries": (
        {"tries": 5},
        [
            "acme 1.0: failures, chat, 429: acme.RateLimited, 3 tries → acme.RateLimited, 5 tries",
        ],
    ),
    "an error's name": (
        {"failures": failed(3, "acme.TooMany")[0]},
        ["acme 1.0: failures, chat, 429: acme.RateLimited, 3 tries → acme.TooMany, 3 tries"],
    ),
    "a time-out": (
        {"timeout": {"read": 60, "connect": None}},
        ["acme 1.0: timeouts_s: read 600 → read 60"],
    ),
    "what is offered": (
        {"offers": ["/chat/completions", "/live/sessions", "/organization/invites"]},
        ["acme 1.0: offers: – → POST /live/sessions (unread)"],
    ),
    "a way that is gone": (
        {"ways": {"chat": {"types": [], "answers": [ANSWER], "fails": "AttributeError"}}},
        [
            "acme 1.0: ways, chat, answers: Completion → –",
            "acme 1.0: ways, chat, fails: – → AttributeError",
        ],
    ),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_differs_is_said_as_it_was_and_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed, lines = OTHERWISE[name]
    changed = dict(changed)
    requests = changed.pop("requests", ())
    before, now = recorded(monkeypatch), recorded(monkeypatch, *requests, **changed)
    assert facts.differences(before, now) == lines
    assert all(line.startswith("acme 1.0: ") for line in facts.differences(now, before))


def test_a_header_that_is_gone_from_one_way_of_two_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    before = copy.deepcopy(dict(recorded(monkeypatch)))
    now = {**before, "headers": [one for one in before["headers"] if one != "acme-version"]}
    assert facts.differences(before, now) == ["acme 1.0: headers: acme-version → –"]


def test_a_path_without_a_dialect_is_printed_as_such() -> None:
    assert read_as("POST /v1/chat/completions") == "openai.chat"
    assert read_as("POST /{api_version}/interactions") == "gemini.interactions"
    assert read_as("POST {model}:generateContent") == "gemini.generateContent"
    assert read_as("POST /v1/answers") is None
    ways = {
        "a": {"asks": ["POST /v1/answers", "POST /v1/chat/completions"], "reads": ["content"]},
        "b": {"asks": ["POST /v1/decisions"]},
    }
    assert facts.unread({"ways": ways}) == [
        "POST /v1/answers; by its shape: content",
        "POST /v1/decisions; by its shape: nothing",
    ]


def test_what_the_proxy_takes_is_what_the_types_still_have() -> None:
    line = "POST /v1/chat/completions"
    whole = taken(line, [ANSWER])
    assert whole == TAKEN
    renamed = {**ANSWER, "usage": {"completion_tokens": 5, "tokens_in": 31}}
    assert set(whole) - set(taken(line, [renamed])) == {"input tokens"}


def test_the_recorder_notes_names_and_no_prompt_key_or_machine() -> None:
    [noted] = recorder.noted(
        [asked(tools=[{"function": {"parameters": {"a": {"b": 1}}}}])]
    ).values()
    assert noted == {
        "asks": ["POST /v1/chat/completions"],
        "headers": ["accept: application/json", "acme-version", "authorization"],
        "body": [
            "messages[].content", "messages[].role", "model", "tools[].function.parameters",
        ],
    }  # fmt: skip


def test_each_request_line_of_an_agent_has_its_own_facts() -> None:
    plain, beta = asked(), asked(path="/v1/messages?beta=true", thread={"type": "create"})
    told = agents.facts("Agent", "2.0", [plain, beta, plain], "2026-11-29")
    assert [*told["ways"]] == ["POST /v1/chat/completions", "POST /v1/messages?beta=true"]
    assert "thread.type" in told["ways"]["POST /v1/messages?beta=true"]["body"]


def test_an_index_that_does_not_answer_is_one_sentence_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = (
        sys.executable,
        "-c",
        "import sys; print('{}'); print('connection broken', file=sys.stderr)",
    )
    monkeypatch.setattr(installing, "_PIP", silent)
    monkeypatch.setattr(facts, "keep", lambda *_: pytest.fail("written"))
    assert wires.main(["--only", "openai", "--accept"]) == wires.UNREACHABLE
    said = capsys.readouterr().out
    assert said == "wires: the package index cannot be reached; nothing was compared\n"


def test_what_cannot_be_asked_is_a_difference_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: str) -> list[Any]:
        raise recording.RecordingError("acme cannot be asked: ImportError")

    monkeypatch.setattr(wires, "_jobs", lambda _: iter([broken]))
    monkeypatch.setattr(wires, "_moved", lambda _: [])
    assert wires.main([]) == 1
    assert capsys.readouterr().out == "acme cannot be asked: ImportError\n"


def test_the_locked_release_is_compared_too_where_it_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def version(name: str, python: str, day: str) -> dict[str, Any]:
        locked = python == sys.executable
        return {"name": name, "version": metadata.version(name) if locked else "99.0", "seen": day}

    monkeypatch.setattr(installing, "newest_sdk", lambda _: "elsewhere/python")
    monkeypatch.setattr(recording, "sdk", version)
    both = wires._sdk("openai", "2026-11-29", accept=False)
    assert [one["version"] for one in both] == ["99.0", metadata.version("openai")]
    assert [one["version"] for one in wires._sdk("openai", "", accept=True)] == ["99.0"]
    assert [one["version"] for one in wires._sdk("cohere", "", accept=False)] == ["99.0"]


def test_a_difference_exits_with_1_and_is_kept_once_it_is_accepted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, now = recorded(monkeypatch), recorded(monkeypatch, tries=4)
    facts.keep(before, tmp_path)
    monkeypatch.setattr(facts, "FOLDER", tmp_path)
    monkeypatch.setattr(facts.kept, "__defaults__", (tmp_path,))
    monkeypatch.setattr(facts.keep, "__defaults__", (tmp_path,))
    monkeypatch.setattr(wires, "_jobs", lambda _: iter([lambda _: [now]]))
    monkeypatch.setattr(wires, "_moved", lambda _: [])
    monkeypatch.setattr(wires, "write", lambda *_: None)
    assert wires.main([]) == 1
    assert "3 tries → acme.RateLimited, 4 tries" in capsys.readouterr().out
    assert wires.main(["--accept"]) == 0
    assert wires.main([]) == 0


@pytest.mark.parametrize("name", facts.kept())
def test_facts_hold_no_key_prompt_machine_or_address(name: str) -> None:
    [file] = [
        f for f in facts.FOLDER.glob("*.toml") if tomllib.loads(f.read_text())["name"] == name
    ]
    text = file.read_text("utf-8")
    assert text == facts.written(facts.kept()[name])
    assert not re.search(r"https?://|127\.0\.0\.1|/(?:root|home|tmp|work)/|zero\?|\bsk-", text)


def test_the_page_is_the_facts() -> None:
    for place, content in page.generated().items():
        file, _, marker = place.partition("#")
        text = (facts.ROOT / file).read_text("utf-8")
        assert part(text, marker) == content, "run python -m tests.test_docs"


def test_every_way_that_is_asked_is_kept_and_answered_by_the_sdk() -> None:
    kept = facts.kept()
    assert set(kept) == {*asking.SDKS, *(each.name for each in agents.WATCHED)}
    for name in asking.SDKS:
        assert [*kept[name]["ways"]] == [*asking.WAYS[name]["ways"]]
        assert [way for way, one in kept[name]["ways"].items() if "fails" in one] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(wires.LOCKED))
def test_the_locked_sdks_do_what_is_kept(name: str) -> None:
    now = recording.sdk(name, sys.executable, "2026-11-29")
    assert now["version"] == metadata.version(name)
    assert facts.differences(facts.kept()[name], now) == [], "make lock, then make wires"


def test_a_failing_answer_names_the_place_of_each_text() -> None:
    with Provider(recorder.answer) as provider:
        import httpx

        url = f"{provider.url}/~chat.429/v1/chat/completions"
        answer = httpx.post(url, json={"model": "m"}, trust_env=False)
    assert answer.status_code == 429
    assert answer.json()["error"]["code"] == f"{asking.MARK}error.code"


# --- private names of harnesses ----------------------------------------------------------------

QUEUE = """
class TrialQueue:
    _limits: int
    def __init__(self):
        self._retry_config = None
    async def _setup_hooks(self): ...
"""


def test_a_private_name_that_moved_is_said_with_where_it_is_and_what_it_was_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    modules = {
        "harbor/agents/base.py": "class BaseAgent:\n    _extra_env: dict",
        "harbor/job.py": "class Job:\n    def run(self): self._trial_queue = 1",
        "harbor/trial/queue.py": QUEUE,
    }
    release = "0.27.0", modules
    assert list(private.moved("harbor", *release)) == []
    modules["harbor/job.py"] = "class Job:\n    def run(self): self._queue = 1"
    modules["harbor/retries.py"] = QUEUE.replace("_setup_hooks", "_hooks")
    modules["harbor/trial/queue.py"] = QUEUE.replace("_retry_config", "_retries")
    monkeypatch.setattr(installing, "newest_source", lambda package: release)
    assert wires.main(["--only", "harbor"]) == 1
    gone, elsewhere = capsys.readouterr().out.splitlines()
    assert gone == (
        "harbor 0.27.0: harbor/job.py: Job._trial_queue → nowhere; harbor holds the two below"
    )
    assert elsewhere == (
        "harbor 0.27.0: harbor/trial/queue.py: TrialQueue._retry_config → harbor/retries.py: "
        "TrialQueue._retry_config; harbor has permanent causes not tried again"
    )


def test_a_release_is_read_from_its_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    write = (
        "import sys, zipfile; opened = zipfile.ZipFile(sys.argv[1] + '/acme-1.2-py3-none-any.whl',"
        " 'w'); opened.writestr('acme/a.py', 'x = 1'); opened.writestr('acme/a.txt', '')"
    )
    monkeypatch.setattr(installing, "_DOWNLOAD", (sys.executable, "-c", write))
    assert installing.newest_source("acme") == ("1.2", {"acme/a.py": "x = 1"})

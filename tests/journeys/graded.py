"""A provider that knows what a prompt is worth, for optimisers and other loops.

It answers ``question N`` with 2 N for 7 of 20 numbers, and for all of them once the prompt has the
best instruction, which it proposes once to an optimiser that asks for one.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Mapping

from tests.fakes import answers
from tests.fakes.answers import FAILURES, Api, Fault
from tests.fakes.provider import Answer, Request

BEST = "Answer with the double, CAREFULLY."
OUTAGE_S = 12.0
CASES = {
    "healthy": "healthy",
    "auth": "dead key",
    "quota": "empty account",
    "outage": "12 s outage",
    "rate": "25 % rate limits",
    "in200": "25 % errors in a 200",
    "empty": "25 % empty answers",
}
# No waiting mends them.
STOPPED = {"auth": "the key was refused", "quota": "the account's quota was spent"}


def cell(said: float | str) -> str:
    """What a harness made of a case, for the page: its score, or why it ended."""
    if not isinstance(said, str):
        return f"{said:g}"
    told = " ".join(said.split())  # a task that is skipped may be the first to say so
    if skipped := re.search(r"skipped: breaker [\w-]+ on (\w+):", told):
        return f"ends: {STOPPED[skipped[1]]}"
    why = re.search(r"does not count: ([^(;]*)", told)
    return f"ends: {why[1].strip(' ,')}" if why else f"ends: {said[:80].split(' for url')[0]}"


def ends_or_is_healthy(cells: Mapping[str, str]) -> None:
    """Hold the cells of a recipe: the healthy score, or the end where no waiting mends it."""
    ended = [case for case in CASES if cells[case].startswith("ends: ")]
    assert ended == [*STOPPED], cells
    assert {cells[case] for case in CASES if case not in STOPPED} == {cells["healthy"]}, cells


class Graded:
    """Answers as the case says that the caller's key names, one outage a key.

    The 25 % are prompts that fail when they are asked for the first time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._down_at: dict[str, float] = {}
        self._asked: set[tuple[str, str]] = set()
        self._proposed: dict[str, int] = {}

    def __call__(self, request: Request) -> Answer:
        key = (request.header("authorization") or "").removeprefix("Bearer sk-")
        messages = json.loads(request.body)["messages"]
        text = "\n".join(str(each["content"]) for each in messages)
        with self._lock:
            return self._failure(key, text) or self._healthy(key, text, messages)

    def _failure(self, key: str, text: str) -> Answer | None:
        case, now = key.partition("-")[0], time.monotonic()
        if case == "outage" and BEST in text:
            self._down_at.setdefault(key, now)
        if now < self._down_at.get(key, -OUTAGE_S) + OUTAGE_S:
            return FAILURES[Api.CHAT][Fault.PROVIDER_ERROR]
        if case in STOPPED:
            return FAILURES[Api.CHAT][Fault(case)]
        asked = key, hashlib.sha256(text.encode()).hexdigest()
        if case == "healthy" or asked in self._asked or int(asked[1], 16) % 4:
            return None
        self._asked.add(asked)
        if case == "rate":
            return FAILURES[Api.CHAT][Fault.RATE_LIMIT]
        if case == "in200":
            error = {"message": "The server had an error.", "type": "server_error", "code": None}
            return answers.whole({"error": error})
        return answers.chat(text="") if case == "empty" else None

    def _healthy(self, key: str, text: str, messages: list[dict[str, str]]) -> Answer:
        field = re.search(r"Your output fields are:\n1\. `(\w+)`", text)
        asked = re.findall(r"question (\d+)", messages[-1]["content"])
        if field is None and not messages[-1]["content"].startswith("question "):
            return answers.chat(text=f"```\n{self._proposal(key)}\n```")
        if field is not None and field[1] != "answer":
            first = 2 if field[1] == "proposed_instruction" else 1  # MIPROv2 drops its first one
            value = self._proposal(key, first) if "instruction" in field[1] else "A task."
        else:
            number = int(asked[-1])
            value = str(2 * number) if BEST in text or number % 20 < 7 else "none"
        if field is None:
            return answers.chat(text=value)
        if "Respond with a JSON object" in text:
            return answers.chat(text=json.dumps({field[1]: value}))
        return answers.chat(text=f"[[ ## {field[1]} ## ]]\n{value}\n\n[[ ## completed ## ]]")

    def _proposal(self, key: str, best: int = 1) -> str:
        number = self._proposed[key] = self._proposed.get(key, 0) + 1
        return BEST if number == best else f"Answer in {number} words at most."

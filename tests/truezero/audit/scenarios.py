"""Runs with a known truth: what happened to the model's calls, before any harness wrote it down.

Each kind of run is drawn in several wordings of several providers' clients. ``failed`` is the
truth: whether the score is no measurement, because the provider failed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import tables

MODEL = "openai/gpt-5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """An exception: its class, its sentence, and the answer behind it."""

    type: str
    text: str
    status: int | None = None
    body: dict[str, Any] | None = None
    module: str = "openai"

    @property
    def chain(self) -> str:
        """As a traceback's last line says it."""
        return (
            f"{self.module}.{self.type}: {self.text}"
            if self.module
            else f"{self.type}: {self.text}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One run. ``calls``: ``ok``, ``empty``, or the exception of a failed one.

    ``raised`` is what the harness was left with; None where the agent swallowed it.
    """

    kind: str
    number: int
    calls: tuple[str | Raised, ...]
    reward: float | None
    failed: bool
    raised: Raised | None = None
    ended: str = "stop"  # stop, max_steps, timeout, setup
    recorded: bool = True  # False: tokens, calls and trajectories were not kept
    cause: str | None = None  # the subcategory of its failure

    @property
    def task(self) -> str:
        return f"{self.kind}-{self.number}"

    @property
    def answered(self) -> int:
        return sum(each == "ok" for each in self.calls)

    @property
    def tokens(self) -> int:
        """Input tokens of answered calls, and output of those that are not empty."""
        return sum(120 if each == "ok" else 100 if each == "empty" else 0 for each in self.calls)


def raised(
    type: str, *, sdk: str | None = None, status: int | None = None, message: str = "",
    code: str | None = None, kind: str = "error", text: str = "", module: str = "openai",
) -> Raised:  # fmt: skip
    """An answer as an SDK raises it, or the exception of a client without one."""
    if sdk is None:
        return Raised(type=type, text=text, module=module)
    body: dict[str, Any] = {"error": {"message": message, "type": kind}}
    if sdk == "openai":
        body["error"] |= {"param": None, "code": code}
    elif sdk == "anthropic":
        body = {"type": "error", "error": {"type": kind, "message": message}}
    said = f"Error code: {status} - {body}"
    if sdk == "litellm":
        body["error"] |= {"type": "None", "code": str(status)}
        said = f"litellm.{type}: {type}: OpenAIException - {message}"
        sdk = "litellm.exceptions"
    return Raised(type=type, text=said, status=status, body=body, module=sdk)


def _read() -> dict[str, tuple[Raised, ...]]:
    """Read ``raised.jsonl``: exceptions by what they are of."""
    found: dict[str, list[Raised]] = {}
    for row in tables.lines(Path(__file__).with_name("raised.jsonl")):
        del row["source"]
        found.setdefault(row.pop("cause"), []).append(raised(**row))
    return {cause: tuple(each) for cause, each in found.items()}


FAILURES = _read()
TOO_LONG, (FILTERED,) = FAILURES.pop("too_long"), FAILURES.pop("filtered")
# What agents, tools and sandboxes raise by themselves; some speak of keys, limits and statuses.
AGENTS_OWN, SANDBOX = FAILURES.pop("agent"), FAILURES.pop("sandbox")
KINDS = (
    "passed", "honest_zero", "recovered", "agent_error", "context_length", "timeout", "max_steps",
    "sandbox", "swallowed", "raised", "midway_swallowed", "midway_raised", "empty", "no_call",
    "not_recorded",
)  # fmt: skip


def scenarios(count: int, seed: int = 19) -> Iterator[Scenario]:
    """Draw as many runs as asked, each kind equally often."""
    draw = random.Random(seed)
    for number in range(count):
        yield _drawn(KINDS[number % len(KINDS)], number, draw)


def _drawn(kind: str, number: int, draw: random.Random) -> Scenario:
    ok = ("ok",) * draw.randint(1, 5)
    cause = draw.choice(tuple(FAILURES))
    failure = draw.choice(FAILURES[cause])
    failures = (failure,) * draw.randint(1, 4)
    own, too_long = draw.choice(AGENTS_OWN), draw.choice(TOO_LONG)
    facts: dict[str, Any] = {
        "passed": {"calls": ok, "reward": 1.0},
        "honest_zero": {"calls": ok, "reward": 0.0},
        "recovered": {"calls": (*ok, failure, "ok"), "reward": draw.choice((0.0, 1.0))},
        "agent_error": {"calls": ok, "reward": 0.0, "raised": own},
        "context_length": {"calls": (*ok, too_long), "reward": 0.0, "raised": too_long},
        "timeout": {"calls": ok, "reward": 0.0, "ended": "timeout"},
        "max_steps": {"calls": ok, "reward": 0.0, "ended": "max_steps"},
        "sandbox": {"calls": (), "reward": None, "ended": "setup", "raised": draw.choice(SANDBOX)},
        "swallowed": {"calls": failures, "reward": 0.0, "failed": True},
        "raised": {"calls": failures, "reward": 0.0, "failed": True, "raised": failure},
        "midway_swallowed": {"calls": (*ok, *failures), "reward": 0.0, "failed": True},
        "midway_raised": {
            "calls": (*ok, *failures),
            "reward": 0.0,
            "failed": True,
            "raised": failure,
        },
        "empty": {"calls": ("empty",) * len(ok), "reward": 0.0, "failed": True},
        "no_call": {"calls": (), "reward": 0.0, "failed": True},
        "not_recorded": {
            "calls": failures if number % 2 else ok,
            "reward": 0.0,
            "failed": bool(number % 2),
            "recorded": False,
        },
    }
    chosen = {"failed": False} | facts[kind]
    named = cause if failure in chosen["calls"] and chosen["failed"] else None
    return Scenario(kind=kind, number=number, cause=named, **chosen)

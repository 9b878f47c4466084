"""Judge an export without a server: JSON lines in, one verdict a line out.

It reads one file (``-`` is standard input), writes standard output, and asks nobody.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from classifier.codec import (
    decode_exchange,
    decode_outcome,
    decode_rollout,
    encode_verdict,
)
from classifier.policy import EVIDENCE, POLICIES, SEED, Policy, named
from classifier.records import Exchange, Outcome, RolloutRecord
from classifier.retries import in_itself
from classifier.rules import judge
from classifier.verdicts import Verdict


class LineError(ValueError):
    """A line of an export that cannot be read; says which and why."""


def rollouts_of(lines: Iterable[str]) -> list[RolloutRecord]:
    """The rollouts of an export, in the order in which each was met first.

    A line is one JSON object. ``record`` says what it is: ``exchange`` (the default),
    ``outcome`` (with ``rollout_id``) or ``rollout`` (with ``id``). ``LineError`` names
    the line and the key that cannot be read.
    """
    facts: dict[str, RolloutRecord] = {}
    exchanges: dict[str, list[Exchange]] = {}
    for name, record in _records(lines):
        if isinstance(record, RolloutRecord):
            outcome = facts[name].outcome if name in facts else None
            facts[name] = replace(record, outcome=outcome)
            continue
        facts.setdefault(name, RolloutRecord(id=name))
        if isinstance(record, Outcome):
            facts[name] = replace(facts[name], outcome=record)
        else:
            exchanges.setdefault(name, []).append(record)
    return [replace(r, exchanges=tuple(exchanges.get(r.id, ()))) for r in facts.values()]


def _records(lines: Iterable[str]) -> Iterator[tuple[str, RolloutRecord | Outcome | Exchange]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield _record(json.loads(line))
        except ValueError as error:
            raise LineError(f"line {number}: {error}") from error


def _record(source: object) -> tuple[str, RolloutRecord | Outcome | Exchange]:
    if not isinstance(source, Mapping):
        raise LineError("is not an object")
    match source.get("record", "exchange"):
        case "rollout":
            rollout = decode_rollout(source)
            return rollout.id, rollout
        case "outcome":
            return _owner(source), decode_outcome(source)
        case "exchange":
            exchange = decode_exchange(source)
            return exchange.rollout_id, exchange
        case other:
            raise LineError(f"record: {other!r} is none of exchange, outcome, rollout")


def _owner(source: Mapping[str, object]) -> str:
    owner = source.get("rollout_id")
    if not isinstance(owner, str):
        raise LineError("rollout_id: is missing")
    return owner


def judge_export(lines: Iterable[str], *, policy: Policy = EVIDENCE) -> list[Verdict]:
    """One verdict for each rollout of an export; raises ``LineError``.

    Attempts of one task are advised knowing of each other, as the service advises them.
    """
    judged = [(rollout, judge(rollout, policy=policy)) for rollout in rollouts_of(lines)]
    if policy is SEED:
        return [verdict for _, verdict in judged]
    causes = _causes(judged)
    return [
        in_itself(verdict, rollout, policy, _before(rollout, causes))
        if rollout.attempt
        else verdict
        for rollout, verdict in judged
    ]


Slot = tuple[str | None, str | None]


def _causes(judged: Iterable[tuple[RolloutRecord, Verdict]]) -> dict[Slot, list[tuple[int, str]]]:
    """Each task's causes with their attempts, in order."""
    found: dict[Slot, list[tuple[int, str]]] = {}
    for rollout, verdict in judged:
        if rollout.task is not None and rollout.attempt is not None and verdict.cause is not None:
            slot = (rollout.batch, rollout.task)
            found.setdefault(slot, []).append((rollout.attempt, verdict.cause))
    return {slot: sorted(attempts) for slot, attempts in found.items()}


def _before(rollout: RolloutRecord, causes: Mapping[Slot, list[tuple[int, str]]]) -> list[str]:
    attempts = causes.get((rollout.batch, rollout.task), [])
    return [cause for attempt, cause in attempts if attempt < (rollout.attempt or 0)]


def main(arguments: list[str] | None = None) -> int:
    """The command: 0 when every line was read, 2 with one sentence when not."""
    parser = argparse.ArgumentParser(prog="python -m classifier", description=__doc__)
    parser.add_argument("file", help="JSON lines of exchanges, outcomes and rollouts; - for stdin")
    parser.add_argument("--policy", choices=sorted(POLICIES), default=EVIDENCE.name)
    chosen = parser.parse_args(arguments)
    try:
        verdicts = judge_export(_lines(chosen.file), policy=named(chosen.policy))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{chosen.file}: {error}\n")
        return 2
    for verdict in verdicts:
        sys.stdout.write(json.dumps(encode_verdict(verdict)) + "\n")
    return 0


def _lines(name: str) -> list[str]:
    if name == "-":
        return sys.stdin.readlines()
    return Path(name).read_text(encoding="utf-8").split("\n")


if __name__ == "__main__":
    sys.exit(main())

"""Classify an export without a server: JSON lines in, one verdict a line out.

With the operator's rows, what they change comes out instead. With ``--answers`` each line is one
answer of a provider, or one exception of its client, and its cause comes out.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeVar

from classifier.codec import (
    decode_exchange,
    decode_outcome,
    decode_rollout,
    encode_cause,
    encode_verdict,
)
from classifier.operator_causes import OperatorCauses, operator_rows
from classifier.records import Exchange, Outcome, RolloutRecord
from classifier.rejudging import Rejudged
from classifier.retries import with_advice
from classifier.rules import judge
from classifier.verdicts import EVIDENCE, POLICIES, SEED, Policy, Verdict, named


class LineError(ValueError):
    """A line of an export that cannot be read; the message says which and why."""


def rollouts_of(lines: Iterable[str]) -> list[RolloutRecord]:
    """Return the rollouts of an export, in the order of their first line.

    A line is one JSON object. ``record`` says what it is: ``exchange`` (the default),
    ``outcome`` (with ``rollout_id``) or ``rollout`` (with ``id``). ``LineError`` names
    the line and the key that cannot be read.
    """
    return _joined(_records(lines))


def records_of(export: Iterable[Mapping[str, object]]) -> list[RolloutRecord]:
    """Return the rollouts of an export whose lines are parsed; raises ``ValueError``."""
    return _joined(map(_record, export))


def _joined(
    records: Iterable[tuple[str, RolloutRecord | Outcome | Exchange]],
) -> list[RolloutRecord]:
    rollouts: dict[str, RolloutRecord] = {}
    exchanges: dict[str, list[Exchange]] = {}
    for name, record in records:
        if isinstance(record, RolloutRecord):
            outcome = rollouts[name].outcome if name in rollouts else None
            rollouts[name] = replace(record, outcome=outcome)
            continue
        rollouts.setdefault(name, RolloutRecord(id=name))
        if isinstance(record, Outcome):
            rollouts[name] = replace(rollouts[name], outcome=record)
        else:
            exchanges.setdefault(name, []).append(record)
    return [replace(r, exchanges=tuple(exchanges.get(r.id, ()))) for r in rollouts.values()]


def _records(lines: Iterable[str]) -> Iterator[tuple[str, RolloutRecord | Outcome | Exchange]]:
    from truezero.foreign import parse  # noqa: PLC0415  of exports only

    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield _record(parse(line))
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
    """Return one verdict for each rollout of an export; raises ``LineError``.

    Retry advice considers earlier attempts of the same task, as in the service. Each of them
    counts: an export does not say if a lane answered others meanwhile.
    """
    return judge_records(rollouts_of(lines), policy=policy)


def judge_records(rollouts: Iterable[RolloutRecord], *, policy: Policy) -> list[Verdict]:
    """Return one verdict for each rollout, in their order."""
    judged = [(rollout, judge(rollout, policy=policy)) for rollout in rollouts]
    if policy is SEED:
        return [verdict for _, verdict in judged]
    causes = _causes(judged)
    return [
        with_advice(verdict, rollout, policy, _before(rollout, causes))
        if rollout.attempt
        else verdict
        for rollout, verdict in judged
    ]


_Repeat = tuple[str | None, str | None, int | None]


def _causes(
    judged: Iterable[tuple[RolloutRecord, Verdict]],
) -> dict[_Repeat, list[tuple[int, str]]]:
    """Collect the causes of each task's repeats with their attempts, in order."""
    causes: dict[_Repeat, list[tuple[int, str]]] = {}
    for rollout, verdict in judged:
        if rollout.task is not None and rollout.attempt is not None and verdict.cause is not None:
            slot = (rollout.batch, rollout.task, rollout.repeat)
            causes.setdefault(slot, []).append((rollout.attempt, verdict.cause))
    return {slot: sorted(attempts) for slot, attempts in causes.items()}


def _before(rollout: RolloutRecord, causes: Mapping[_Repeat, list[tuple[int, str]]]) -> list[str]:
    attempts = causes.get((rollout.batch, rollout.task, rollout.repeat), [])
    return [cause for attempt, cause in attempts if attempt < (rollout.attempt or 0)]


# --- the operator's rows ---


class RowsError(ValueError):
    """The operator's rows cannot be read; the message names the file and says why."""


def rows_in(path: Path) -> OperatorCauses:
    """Read the rows of a `truezero.toml`; what else is in it is not looked at.

    Raises:
        RowsError: the file cannot be read, has no rows, or one is not valid.
    """
    try:
        rows = operator_rows(tomllib.loads(path.read_text(encoding="utf-8")).get("causes", []))
    except OSError as error:
        raise RowsError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RowsError(f"{path}: invalid TOML: {error}") from None
    except ValueError as error:
        raise RowsError(f"{path}: causes: {error}") from None
    if not rows:
        raise RowsError(f"{path}: no [[causes]] in it")
    return OperatorCauses(rows)


def rejudge_export(lines: Sequence[str], tally: Rejudged) -> Iterator[str]:
    """Yield an export's lines with the causes that the rows give; raises ``LineError``."""
    for number, line in enumerate(lines, start=1):
        yield _rejudged(number, line, tally)
    for record in rollouts_of(lines):
        tally.rollout(record)


def _rejudged(number: int, line: str, tally: Rejudged) -> str:
    from truezero.foreign import parse  # noqa: PLC0415  of exports only

    if not line.strip():
        return line
    try:
        source = parse(line)
        exchange = _record(source)[1]
    except ValueError as error:
        raise LineError(f"line {number}: {error}") from error
    if not isinstance(exchange, Exchange):
        return line
    changed = tally.call(exchange)
    return line if changed is exchange else json.dumps(source | encode_cause(changed.cause))


# --- single answers ---


def causes_of(lines: Iterable[str]) -> Iterator[dict[str, object]]:
    """Yield the cause of each answer, a JSON object a line; raises ``LineError``.

    A line has the arguments of ``truezero.cause_of``: ``status``, ``headers`` and ``body``, or
    ``exception``. A body may be the JSON itself. Its ``id`` is kept; ``cause`` is null if nothing
    says that the call failed.
    """
    from truezero.foreign import parse  # noqa: PLC0415  of this option only

    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield _cause_of(parse(line))
            except (TypeError, ValueError) as error:
                raise LineError(f"line {number}: {error}") from error


def _cause_of(source: object) -> dict[str, object]:
    from truezero.one_answer import cause_of  # noqa: PLC0415  of this option only

    if not isinstance(source, Mapping):
        raise LineError("is not an object")
    headers = _of_type(dict, source, "headers") or {}
    cause = cause_of(
        _of_type(int, source, "status"),
        {str(name): str(value) for name, value in headers.items()},
        _text(source.get("body")),
        exception=_of_type(str, source, "exception"),
        url=_of_type(str, source, "url") or "",
        request=_text(source.get("request")),
        upstream=_of_type(str, source, "upstream") or "",
    )
    kept = {"id": source["id"]} if "id" in source else {}
    return kept | ({"cause": None} if cause is None else asdict(cause))


_T = TypeVar("_T")


def _of_type(kind: type[_T], source: Mapping[str, object], key: str) -> _T | None:
    value = source.get(key)
    if value is None or (isinstance(value, kind) and not isinstance(value, bool)):
        return value
    raise LineError(f"{key}: {value!r} is no {kind.__name__}")


def _text(value: object) -> str:
    """Return a body as text; one that was logged as JSON is written again."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


# --- command ---


def main(arguments: list[str] | None = None) -> int:
    """Run the command: exit 0 when every line was read, else 2 with a message."""
    parser = argparse.ArgumentParser(
        prog="python -m classifier", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("file", help="JSON lines of exchanges, outcomes and rollouts; - for stdin")
    parser.add_argument("--policy", choices=sorted(POLICIES), default=EVIDENCE.name)
    parser.add_argument(
        "--answers", action="store_true", help="print the cause of each line's answer instead"
    )
    parser.add_argument(
        "--causes", type=Path, metavar="TOML", help="print what these [[causes]] change instead"
    )
    chosen = parser.parse_args(arguments)
    policy = named(chosen.policy)
    try:
        if chosen.answers:
            output = map(json.dumps, list(causes_of(_lines(chosen.file))))
        elif chosen.causes is None:
            output = map(_verdict_line, judge_export(_lines(chosen.file), policy=policy))
        else:
            tally = Rejudged(causes=rows_in(chosen.causes), policy=policy)
            for _ in rejudge_export(_lines(chosen.file), tally):
                pass
            output = map(str, tally.lines())
    except RowsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{chosen.file}: {error}\n")
        return 2
    for line in output:
        sys.stdout.write(line + "\n")
    return 0


def _verdict_line(verdict: Verdict) -> str:
    return json.dumps(encode_verdict(verdict))


def _lines(name: str) -> list[str]:
    from truezero.foreign import bounded, text_lines  # noqa: PLC0415  of exports only

    return list(bounded(sys.stdin.readline, "") if name == "-" else text_lines(Path(name)))


if __name__ == "__main__":
    sys.exit(main())

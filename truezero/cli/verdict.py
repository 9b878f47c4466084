"""`truezero verdict`: a rollout's verdict and the calls that prove it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import click

from truezero.cli.options import json_option, print_json, print_page, reading, service_options
from truezero.cli.text import (
    HEALTH_STYLE,
    LEVEL_STYLE,
    amount,
    dollars,
    escape,
    fact_lines,
    health_word,
    make_console,
    print_columns,
    styled,
)
from truezero.printable import plural, reference_words, visible

if TYPE_CHECKING:  # a command that prints does not wait for pydantic
    from rich.console import Console

    from truezero import models


@click.command()
@click.argument("rollout", metavar="ID")
@service_options
@click.option("--wait", is_flag=True, help="Wait up to 10 s for calls in flight.")
@click.option("--policy", help="evidence or seed; the verdict is not stored.")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Print every call, not only the evidence and 3 around.",
)
@json_option
def verdict(
    *,
    rollout: str,
    url: str | None,
    token: str | None,
    wait: bool,
    policy: str | None,
    everything: bool,
    as_json: bool,
) -> None:
    """Print a rollout's verdict and the calls that prove it."""
    with reading(url, token) as service:
        judgement = service.verdict(rollout, settled=wait, policy=policy)
        calls = [] if as_json else service.exchanges(rollout)
    if as_json:
        print_json(judgement)
    else:
        print_verdict(judgement, calls, everything=everything)
        print_page(service.url, "rollouts", rollout)


def print_verdict(
    verdict: models.Verdict, calls: Sequence[models.Exchange], *, everything: bool = False
) -> None:
    """Print one rollout: verdict, attributes and calls.

    Arguments:
        everything: print every call, not only the evidence and the calls around it.
    """
    console = make_console()
    told = f"[bold]{escape(verdict.rollout_id)}[/bold]  {escape(sentence_of(verdict))}"
    console.print(told, soft_wrap=True)
    facts = {
        "rule": verdict.rule,
        "fingerprint": verdict.fingerprint,
        "lane": verdict.lane,
        "scoreable": verdict.scoreable,
        "proof": _proof(verdict.proof, calls),
        "asked": asked_at_the_time(verdict),
        "retry": f"{'yes' if verdict.retry.eligible else 'no'}: {verdict.retry.reason}",
        "tokens": _tokens(verdict),
        "time": _time(verdict),
        "warnings": ", ".join(verdict.warnings) or None,
        "not looked at": _unseen(verdict),
        "provisional": _provisional(verdict),
    }
    known = {"health": health_word(verdict.health)}
    known |= {name: escape(value) for name, value in facts.items() if value is not None}
    for line in fact_lines(known):
        console.print(line, soft_wrap=True)
    for found in verdict.validity:
        style = LEVEL_STYLE.get(found.level, "dim")
        line = escape(finding_line(found).removeprefix(found.level))
        console.print(f"[{style}]{found.level}[/{style}]{line}", soft_wrap=True, highlight=False)
    for role, each in verdict.roles.items():
        console.print(f"role {_role_line(role, each)}", soft_wrap=True, highlight=False)
    print_calls(console, calls, marks_of(verdict), everything=everything)


def sentence_of(verdict: models.Verdict) -> str:
    """Return a verdict's sentence, made here if an earlier release gave the verdict."""
    if verdict.sentence:
        return verdict.sentence
    from classifier.sentences import sentence  # noqa: PLC0415  only what an old service gave

    return sentence(verdict)


def finding_line(found: models.ValidityFinding) -> str:
    """Return a validity finding as one plain line: level, check, sentence and calls."""
    calls = f"{found.calls:,} of {plural(found.of, 'call')}"
    return f"{found.level} {found.check}: {found.sentence} ({calls})"


def _role_line(role: str, verdict: models.RoleVerdict) -> str:
    calls = f"{verdict.failed_requests} of {plural(verdict.total_requests, 'call')} failed"
    why = " ".join(filter(None, (verdict.subcategory, verdict.error)))
    health = styled(verdict.health, HEALTH_STYLE)
    return f"{escape(role)}: {health} ({escape(why or calls)})"


def _proof(proof: models.Proof | None, calls: Sequence[models.Exchange]) -> str | None:
    """Name the calls that prove that the model answered, as the table of calls does."""
    if proof is None:
        return None
    numbers = {call.id: str(number) for number, call in enumerate(calls, start=1)}
    ends = [call for call in (proof.first, proof.last) if call]
    if not ends:
        return "reported by the runner, not seen in a call"
    return f"call {' and '.join(dict.fromkeys(numbers.get(call, call) for call in ends))}"


def asked_at_the_time(verdict: models.Verdict) -> str | None:
    """Say how the proxy's own questions beside failed calls ended; a series once."""
    series = {each.series: each for each in verdict.references}.values()
    words = [reference_words(x.result, answered=x.answered, calls=x.calls) for x in series]
    return "; ".join(dict.fromkeys(words)) or None


def _provisional(verdict: models.Verdict) -> str | None:
    if not verdict.provisional:
        return None
    pending = "reference_pending" in verdict.warnings
    return f"yes: {'reference calls have not ended' if pending else 'no outcome reported yet'}"


def _time(verdict: models.Verdict) -> str | None:
    parts = (
        (verdict.provider_s, "waiting for answers"),
        (verdict.lost_s, "lost to failures"),
        (verdict.held_s or None, "waiting at the proxy"),
        (verdict.agent_s, "the agent's own"),
    )
    return ", ".join(f"{spent:.1f} s {what}" for spent, what in parts if spent is not None) or None


def _unseen(verdict: models.Verdict) -> str | None:
    """Name the checks that could not look at every call that they are about."""
    seen = verdict.validity_coverage.items()
    missing = [
        f"{name} ({c.of - c.looked:,} of {plural(c.of, 'call')})"
        for name, c in seen
        if c.looked < c.of
    ]
    return ", ".join(missing) or None


def _tokens(verdict: models.Verdict) -> str | None:
    if verdict.total_tokens is None:
        return None
    told = f"{amount(verdict.input_tokens)} in, {amount(verdict.output_tokens)} out"
    if not verdict.tokens_unknown_calls:
        return told
    return f"at least {told}; {plural(verdict.tokens_unknown_calls, 'call')} did not say"


def _cost(verdict: models.Verdict) -> str | None:
    cost = dollars(verdict.cost_usd)
    return f"at least {cost}" if cost and verdict.cost_unknown_calls else cost


def verdict_line(verdict: models.Verdict, error: str | None = None) -> str:
    """Return a verdict in one plain line: its sentence, health, calls and cost.

    Arguments:
        error: the runner's error, shown if the rollout was not judged.
    """
    calls = plural(verdict.total_requests, "call")
    known = (verdict.health, calls, _tokens(verdict), _cost(verdict))
    facts = ", ".join(filter(None, known))
    why = f": {error}" if verdict.health == "not_judged" and error else ""
    return visible(f"{verdict.rollout_id}: {sentence_of(verdict)} ({facts}){why}")


# --- calls ---
#
# Those that prove a verdict, and those around them.


_WHOLE = 10  # calls up to which none is left out
_AROUND = 3  # calls shown before and after one that is evidence
_PROOFS = 10  # calls that are evidence shown: the first and last half of more

_COLUMNS = ("call", "status", "ending", "model", "tokens", "seconds", "cause", "")
_DISPENSABLE = ("seconds", "tokens", "model", "ending")  # where the terminal is narrow

Marks = Mapping[str, Sequence[str]]


def print_calls(
    to: Console, calls: Sequence[models.Exchange], marks: Marks, *, everything: bool = False
) -> None:
    """Print calls as a table; columns that a narrow terminal has no place for are left out.

    Arguments:
        marks: what a call is shown for, by its id.
        everything: print every call, not only marked ones and the three on each side.
    """
    if not calls:
        return
    shown = range(len(calls)) if everything else chosen(calls, marks)
    rows: list[Mapping[str, str]] = []
    after = 0
    for n in [*shown, len(calls)]:
        if n > after:
            rows.append({"call": "…", "cause": f"[dim]{_left_out(calls[after:n])}[/dim]"})
        if n < len(calls):
            rows.append({"call": str(n + 1), **_row(calls[n], marks)})
        after = n + 1
    print_columns(to, _COLUMNS, rows, dispensable=_DISPENSABLE, foldable=("cause", ""))
    if len(shown) < len(calls):
        to.print(f"[dim]{len(shown)} of {plural(len(calls), 'call')}: --all lists them[/dim]")


def marks_of(verdict: models.Verdict) -> dict[str, list[str]]:
    """Return what each call is shown for, by its id: evidence, proof, checks with a finding.

    Where findings take the score away, as of a dead judge, their calls are the evidence.
    """
    against = [each.evidence for each in verdict.validity if each.check in verdict.excluded_by]
    decided = list(chain(*against)) or verdict.evidence
    marks = {} if verdict.health == "undecided" else {call: ["evidence"] for call in decided}
    proof = verdict.proof
    for call in dict.fromkeys((proof.first, proof.last) if proof else ()):
        if call:
            marks.setdefault(call, []).append("proof")
    for found in verdict.validity:
        for call in found.evidence:
            marks.setdefault(call, []).append(found.check)
    return marks


def chosen(calls: Sequence[models.Exchange], marks: Marks) -> Sequence[int]:
    """Return which calls are shown: the marked ones and those around; the last ones without any."""
    if len(calls) <= _WHOLE:
        return range(len(calls))
    proofs = [n for n, call in enumerate(calls) if call.id in marks]
    if not proofs:
        return range(len(calls) - _WHOLE, len(calls))
    if len(proofs) > _PROOFS:
        proofs = proofs[: _PROOFS // 2] + proofs[-_PROOFS // 2 :]
    near = {n for proof in proofs for n in range(proof - _AROUND, proof + _AROUND + 1)}
    return sorted(n for n in near if 0 <= n < len(calls))


def _row(call: models.Exchange, marks: Marks) -> dict[str, str]:
    seconds = "–" if call.duration_s is None else f"{call.duration_s:.2f}"
    cells = {
        "status": str(call.status or "–"),
        "ending": call.ending or "in flight",
        "model": call.model or "–",
        "tokens": f"{amount(call.input_total)} / {amount(call.output_total)}",
        "seconds": seconds,
        "cause": " ".join(filter(None, (call.subcategory, call.error_code))),
        "": ", ".join(marks.get(call.id, ())),
    }
    return {name: escape(text) for name, text in cells.items()}


def _left_out(calls: Sequence[models.Exchange]) -> str:
    failed = sum(call.subcategory is not None for call in calls)
    count = plural(len(calls), "call")
    return f"{count}, {failed} failed" if failed else count

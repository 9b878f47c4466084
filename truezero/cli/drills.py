"""`truezero drill`: how an agent reacts to each failure of a provider."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING

import click

import truezero
from truezero.cli.options import (
    FOR_AGENT,
    agent_argument,
    agent_option,
    fail,
    json_option,
    print_json,
    progress,
    service_options,
)
from truezero.cli.run import known_agent
from truezero.cli.text import escape, health_word
from truezero.printable import plural

if TYPE_CHECKING:
    from rich.console import Console

    from truezero import models
    from truezero.runner.drills import DrillReport


@click.command(context_settings=FOR_AGENT)
@agent_argument
@agent_option
@click.option(
    "--fault", multiple=True, help="Inject only this failure; repeatable.  [default: all]"
)
@click.option(
    "--like",
    metavar="ROLLOUT",
    help="Play what the provider did to this rollout, and nothing else.",
)
@click.option("--live", is_flag=True, help="With --like: the provider gives the good answers.")
@click.option("--at-call", type=click.IntRange(min=1), help="First call that fails.")
@click.option("--model", help="Model under test.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0.1),
    default=120.0,
    help="Stop the agent after this many seconds.",
)
@click.option(
    "--delay",
    "delay_s",
    type=click.FloatRange(min=0.001, max=3600),
    help="Seconds before a slow answer; with --like, the longest wait.",
)
@service_options
@json_option
def drill(
    *,
    command: tuple[str, ...],
    agent: str | None,
    fault: tuple[str, ...],
    like: str | None,
    live: bool,
    at_call: int | None,
    model: str | None,
    timeout_s: float,
    delay_s: float | None,
    url: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Inject each provider failure into an agent and report how it reacts.

    The proxy answers in the provider's own format; no provider is called, except for calls
    before the failing one (mid_run_quota). The agent's output is measured, not shown. With --like,
    statuses, kinds of errors, waits and cuts are those of a rollout's calls, in placeholder words.
    Without TRUEZERO_URL and --url it starts a temporary service if none answers.
    """
    from rich.console import Console  # noqa: PLC0415

    from truezero.runner import drills, embedded, replays  # noqa: PLC0415
    from truezero.runner import run as runner  # noqa: PLC0415

    if like and (fault or at_call):
        fail("--like plays what happened; --fault and --at-call do not go with it", 2)
    if live and not like:
        fail("--live goes with --like", 2)
    try:
        plan = drills.Plan(
            command=runner.job_of(command).command,
            agent=known_agent(agent),
            drills=drills.chosen(fault),
            model=model,
            at_call=at_call,
            timeout_s=timeout_s,
            delay_s=delay_s,
        )
        with (
            embedded.connect_or_start(
                url, token, runner.say, starts=url is None, keep_outcomes=False
            ) as client,
            progress("drilling") as show,
        ):
            number, faults = count(1), plural(len(plan.drills), "fault")
            if like:
                original = replays.replayed(client, like, live=live, wait_at_most_s=delay_s)
                results = [drills.replay(plan, original, client)]
            else:
                results = drills.run(
                    plan,
                    client,
                    lambda _one: show(f"{next(number)} of {faults}"),
                )
    except drills.DrillError as error:
        fail(str(error), error.code)
    except replays.NotReplayable as error:
        fail(str(error), 1)
    except (truezero.ServiceError, embedded.EmbeddedStartError) as error:
        fail(str(error), 1)
    if as_json:
        print_json([drills.record(result) for result in results])
    else:
        print_table(results, Console())


def print_table(drilled: Sequence[DrillReport], console: Console) -> None:
    """Print all results as a table, and a summary of hidden failures."""
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("fault", no_wrap=True)
    table.add_column("reaction", overflow="fold")
    for name in ("exit", "output", "calls", "retries", "sec", "lost"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for one in drilled:
        table.add_row(
            one.drill,
            f"[red]{one.conduct}[/red]" if one.hidden else one.conduct,
            str(one.exit_code),
            f"{one.output_bytes}+{one.error_bytes}",
            str(one.calls),
            str(one.retries),
            f"{one.seconds:.1f}",
            "?" if one.wasted_s is None else f"{one.wasted_s:.1f}",
            " · ".join((_short(one.verdict), *one.findings)),
        )
    console.print(table)
    for line in _lessons(drilled):
        console.print(escape(line))


def _short(verdict: models.Verdict) -> str:
    why = verdict.subcategory or ("" if verdict.health == "healthy" else verdict.rule)
    return f"{health_word(verdict.health)} {why}".rstrip()


def _spoils(verdict: models.Verdict) -> bool:
    return any(finding.level != "info" for finding in verdict.validity)


def _lessons(drilled: Sequence[DrillReport]) -> Iterator[str]:
    hidden = [one for one in drilled if one.hidden]
    failures = ", ".join(one.drill for one in hidden if not one.took_spoilt)
    spoilt = ", ".join(one.drill for one in hidden if one.took_spoilt)
    missed = ", ".join(
        one.drill for one in hidden if one.verdict.health == "healthy" and not _spoils(one.verdict)
    )
    if failures:
        yield f"Failures hidden behind exit code 0: {failures}."
    elif not all(one.took_spoilt for one in drilled):
        yield "No failure was hidden."
    if spoilt:
        yield f"Spoilt answers taken for good: {spoilt}."
    if missed:
        yield f"Judged healthy nevertheless: {missed}."
    for one in drilled:
        if one.original is not None:
            yield _compared(one.verdict, one.original)


def _compared(verdict: models.Verdict, original: models.Verdict) -> str:
    if _judged(verdict) == _judged(original):
        return f"Judged as {original.rollout_id} was: {_judged(original)}."
    return f"{original.rollout_id} was judged {_judged(original)}; now {_judged(verdict)}."


def _judged(verdict: models.Verdict) -> str:
    return " ".join(filter(None, (verdict.health, verdict.subcategory)))

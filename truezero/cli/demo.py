"""`truezero demo`: what sample agents reported, and what the service made of it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from truezero.cli.options import FILE, fail, json_option, print_json, progress
from truezero.cli.text import escape
from truezero.cli.verdict import asked_at_the_time, sentence_of

if TYPE_CHECKING:
    from rich.console import Console

    from truezero import models
    from truezero.runner.demo import Run

_HELD_S = 0.1  # from which on a wait at the proxy is told


@click.command()
@click.option("--keep", type=FILE, help="Keep the demo's database as this file.")
@json_option
def demo(
    *,
    keep: Path | None,
    as_json: bool,
) -> None:
    """Run sample agents against a provider that fails in known ways, and judge them.

    Starts a real proxy and a local provider; needs no API key and no network.
    """
    from truezero.runner.demo import NoProviderError  # noqa: PLC0415
    from truezero.runner.embedded import EmbeddedStartError  # noqa: PLC0415

    try:
        _run(keep=keep, as_json=as_json)
    except EmbeddedStartError as error:
        fail(str(error), 1)
    except NoProviderError as error:
        fail(str(error), 2)


def _run(*, keep: Path | None, as_json: bool) -> None:
    from rich.console import Console  # noqa: PLC0415

    from truezero.runner import demo as demonstration  # noqa: PLC0415

    console = Console(stderr=as_json)
    with ExitStack() as running:
        with progress("starting a proxy"):
            url, provider_url = running.enter_context(demonstration.services(keep))
        console.print(f"proxy at {url}, provider at {provider_url}")
        runs = _play(url, console)
        if as_json:
            print_json([_record(run) for run in runs])
        else:
            _print(runs, console)


def _play(url: str, console: Console) -> list[Run]:
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
    )

    from truezero.runner.demo import Scene, play, scenes  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("rollouts", total=len(scenes()))

        def ended(scene: Scene) -> None:
            progress.update(bar, description=f"{scene.name}: {scene.story}", advance=1)

        return play(url, ended)


def _record(run: Run) -> dict[str, Any]:
    return {
        "scene": run.scene.name,
        "reported_reward": run.reported,
        "result": run.result.model_dump(),
        "verdict": run.verdict.model_dump(),
    }


def _print(runs: list[Run], console: Console) -> None:
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, title="Rewards and verdicts", title_justify="left")
    table.add_column("rollout", no_wrap=True)
    table.add_column("reward", justify="right")
    table.add_column("kept", justify="right")
    table.add_column("retry", no_wrap=True)
    table.add_column("verdict")
    for played in runs:
        rewards = (played.result.rewards or {}).get("reward")
        table.add_row(
            played.scene.name,
            f"{played.reported:.1f}",
            "[dim]null[/dim]" if rewards is None else f"{rewards:.1f}",
            "yes" if played.verdict.retry.eligible else "",
            _verdict(played.verdict),
        )
    console.print(table)
    console.print(_summary(runs))


def _verdict(verdict: models.Verdict) -> str:
    """Return a verdict in a line, its wait for turns and the answer to the proxy's question."""
    held_s = verdict.held_s or 0.0
    waited = f"its calls waited {held_s:.1f} s for their turn" if held_s > _HELD_S else None
    parts = (escape(sentence_of(verdict)), waited, asked_at_the_time(verdict))
    return "; ".join(part for part in parts if part)


def _summary(runs: list[Run]) -> str:
    reported = sum(played.reported for played in runs) / len(runs)
    rewards = [played.result.rewards["reward"] for played in runs if played.result.rewards]
    measured = sum(rewards) / len(rewards)
    zeros = sum(played.reported == 0 for played in runs)
    false = zeros - rewards.count(0.0)
    return (
        f"{false} of {zeros} zeros were not measurements. Score as reported: {reported:.2f} over "
        f"{len(runs)} rollouts; over the {len(rewards)} that count: {measured:.2f}."
    )

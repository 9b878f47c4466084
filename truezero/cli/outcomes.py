"""Commands on outcomes that could not be delivered: list them, deliver them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from truezero.cli.options import (
    FILE,
    connected,
    csv_option,
    fail,
    json_option,
    print_csv,
    print_json,
    service_options,
)
from truezero.cli.text import escape, moment, print_list
from truezero.cli.verdict import verdict_line
from truezero.printable import plural, visible
from truezero.sdk import outcomes
from truezero.sdk.errors import ServiceError
from truezero.sdk.outcomes import KeptOutcome

if TYPE_CHECKING:
    import truezero
    from truezero import models

_folder_option = click.option(
    "--folder",
    type=FILE,
    envvar="TRUEZERO_OUTCOMES",
    show_envvar=True,
    help="Where they are kept.  [default: .truezero/outcomes]",
)


@click.group("outcomes", invoke_without_command=True)
@click.pass_context
@_folder_option
@csv_option
@json_option
def kept(
    context: click.Context,
    *,
    folder: Path | None,
    as_csv: bool,
    as_json: bool,
) -> None:
    """List the outcomes that could not be delivered, the oldest first.

    Each is what a harness or `truezero run` reported of one rollout while the service was away.
    """
    if context.invoked_subcommand is not None:
        context.obj = folder
        return
    place = _folder(folder)
    files = list(outcomes.kept_in(place))
    if as_csv:
        print_csv(_CSV, (_csv_row(file, one) for file, one in files))
    elif as_json:
        print_json([_listed(file, one) for file, one in files])
    elif not files:
        click.echo(visible(f"no outcome is kept in {place}"))
    else:
        print_outcomes(files)


_CSV = ("rollout_id", "batch", "task", "status", "reported", "kept_at", "service", "file")


def _csv_row(file: Path, one: KeptOutcome | None) -> dict[str, Any]:
    """Return a row; of a file that holds no outcome only its name is known."""
    row = {**dict.fromkeys(_CSV), "file": str(file)}
    if one is None:
        return row
    outcome = {name: one.outcome.get(name) for name in ("batch", "task", "status")}
    told = {"rollout_id": one.rollout_id, "kept_at": one.kept_at, "service": one.service}
    rewards = _reported(one)
    return {**row, **outcome, **told, "reported": rewards and _rewards(rewards)}


def print_outcomes(files: Sequence[tuple[Path, KeptOutcome | None]]) -> None:
    """Print a line for each outcome that is kept."""
    rows: list[Mapping[str, str]] = []
    for file, kept in files:
        if kept is None:
            rows.append({"rollout": f"[red]no outcome: {escape(file.name)}[/red]"})
            continue
        outcome = kept.outcome
        reward = outcome.get("rewards")
        rows.append(
            {
                "rollout": escape(kept.rollout_id),
                "batch": escape(str(outcome.get("batch") or "–")),
                "task": escape(str(outcome.get("task") or "–")),
                "reported": escape(str(outcome.get("status") if reward is None else reward)),
                "kept since (UTC)": moment(kept.kept_at),
                "for the service": escape(kept.service),
            }
        )
    columns = ("rollout", "batch", "task", "reported", "kept since (UTC)", "for the service")
    dispensable = ("batch", "task", "kept since (UTC)", "for the service")
    print_list(columns, rows, dispensable, "outcomes", more=False)


@kept.command()
@click.pass_context
@_folder_option
@click.option(
    "--from", "moved_from", metavar="URL", help="Also those for this address: it has moved."
)
@service_options
@json_option
def deliver(
    context: click.Context,
    *,
    folder: Path | None,
    moved_from: str | None,
    url: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Deliver the kept outcomes to their service, and print what its results are now.

    A harness that waited in vain has these samples as errors; each line says what was reported,
    whether it counts, and why not. A delivered outcome's file is removed. One that the service
    rejects stays, and so does one for another service.

    Exit code: 0 if none is left, 1 otherwise.
    """
    place = _folder(folder or context.obj)
    files = list(outcomes.kept_in(place))
    if not files:
        click.echo("[]" if as_json else visible(f"no outcome is kept in {place}"))
        return
    with connected(url, token, keep_outcomes=False) as client:
        done: list[_Delivery] = []
        for one in _deliveries(client, files, moved_from):
            done.append(one)
            if not as_json:
                click.echo(visible(one.line))
    if as_json:
        print_json([one.record() for one in done])
    left = sum(not one.delivered for one in done)
    if not as_json:
        differ = sum(one.differs for one in done)
        click.echo(
            f"{len(done) - left} of {len(done)} delivered, {differ} with another reward than "
            "reported; to a harness that waited in vain, each is an error until you correct it"
        )
    if left:
        fail(f"{left} of {plural(len(done), 'outcome')} still kept in {place}", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Delivery:
    """The delivery of one file: a result and verdict, or the reason why the file is still there."""

    file: Path
    rollout_id: str | None
    reported: Mapping[str, float] | None = None
    problem: str | None = None
    result: models.Result | None = None
    verdict: models.Verdict | None = None

    @property
    def delivered(self) -> bool:
        return self.result is not None

    @property
    def differs(self) -> bool:
        """True if the file was delivered and other rewards count than were reported."""
        return self.result is not None and self.result.rewards != self.reported

    @property
    def line(self) -> str:
        if self.result is None or self.verdict is None:
            named = f"{self.rollout_id}: " if self.rollout_id else ""
            return f"{named}not delivered: {self.problem}; kept in {self.file}"
        told = verdict_line(self.verdict, self.result.error)
        if self.reported is None and self.result.rewards is None:
            return f"{told}: no reward was reported"
        if not self.differs:
            return f"{told}: {_rewards(self.reported)} counts, as reported"
        return (
            f"{told}: reported {_rewards(self.reported)}, its result has "
            f"{_rewards(self.result.rewards)}"
        )

    def record(self) -> dict[str, Any]:
        result, verdict = self.result, self.verdict
        return {
            "rollout_id": self.rollout_id,
            "file": str(self.file),
            "delivered": self.delivered,
            "problem": self.problem,
            "reported": self.reported,
            "rewards": result and result.rewards,
            "differs": self.differs,
            "health": verdict and verdict.health,
            "error": (result and result.error) or (verdict and verdict.error),
        }


def _deliveries(
    client: truezero.Client, files: list[tuple[Path, KeptOutcome | None]], moved_from: str | None
) -> Iterator[_Delivery]:
    """Deliver each outcome that is meant for this service; stop asking where it is away."""
    here, away = outcomes.without_credentials(client.url), None
    meant = {here, outcomes.without_credentials(moved_from)} if moved_from else {here}
    for file, one in files:
        if one is None:
            yield _Delivery(file=file, rollout_id=None, problem="it is no outcome that was kept")
            continue
        left = _Delivery(file=file, rollout_id=one.rollout_id, reported=_reported(one))
        if one.service not in meant:
            problem = (
                f"it is for {one.service}: pass --url {one.service}, or --from {one.service} if "
                f"that service is at {here} now"
            )
            yield replace(left, problem=problem)
            continue
        try:
            if away is not None:
                raise away
            result, verdict = client.ended(one.rollout_id, **one.outcome)
        except ServiceError as error:
            away = error if outcomes.is_away(error) else None
            yield replace(left, problem=str(error))
        else:
            file.unlink(missing_ok=True)
            yield replace(left, result=result, verdict=verdict)


def _folder(named: Path | None) -> Path:
    return outcomes.folder() if named is None else named.absolute()


def _listed(file: Path, one: KeptOutcome | None) -> dict[str, Any]:
    return {"file": str(file), **(asdict(one) if one is not None else {"rollout_id": None})}


def _reported(one: KeptOutcome) -> dict[str, float] | None:
    """Return the rewards by name; a bare number is the reward named ``reward``."""
    rewards = one.outcome.get("rewards")
    return {"reward": float(rewards)} if isinstance(rewards, int | float) else rewards


def _rewards(rewards: Mapping[str, float] | None) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in (rewards or {}).items()) or "none"

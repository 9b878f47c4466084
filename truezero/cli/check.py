"""`truezero check`: whether a batch is a valid measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from truezero.cli.batch import breaker_lines, breaker_of
from truezero.cli.options import (
    batch_argument,
    json_option,
    print_json,
    print_page,
    reading,
    service_options,
)
from truezero.cli.text import escape, make_console, score_words
from truezero.printable import exclusion_words, plural

if TYPE_CHECKING:
    import truezero
    from truezero import models

NOT_VALID = 1
NOTHING_TO_JUDGE = 3  # no rollout is in a batch of that name
NOT_ASKED = 4  # the service cannot be asked


@click.command()
@batch_argument
@service_options
@json_option
def check(
    *,
    name: str,
    url: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Check that a batch is a valid measurement; exit code 1 and the reasons if it is not.

    Exit code: 0 valid, 1 not valid, 2 usage, 3 no such batch, so that there is nothing to judge, 4
    the service cannot be asked (it is away, refuses the token, or is of another version).
    """
    with reading(url, token, exit_code=_unanswered) as service:
        result, breaker = service.check(name), breaker_of(service, name)
    if as_json:
        print_json(result)
    else:
        print_check(result, breaker)
        print_page(service.url, "batches", name)
    raise Exit(0 if result.valid else NOT_VALID)


def _unanswered(error: truezero.ServiceError) -> int:
    """Return the exit code for an error in place of a check."""
    return NOTHING_TO_JUDGE if error.code == "unknown_batch" else NOT_ASKED


def print_check(check: models.Check, breaker: models.Breaker | None) -> None:
    """Print if a batch is a valid measurement, each objection on a line, and open breakers."""
    console = make_console(soft_wrap=True)
    for line in check.lines:
        console.print(escape(line))
    if (total := check.lines_total or 0) > len(check.lines):
        console.print(f"[dim]and {plural(total - len(check.lines), 'more rollout')}[/dim]")
    if check.exclusion_p is not None:
        console.print(exclusion_words(check.exclusion_bias, check.exclusion_p))
    if check.score_reported is not None:
        score, reported = map(score_words, (check.score_effective, check.score_reported))
        console.print(f"score {score}, as the harness reported it {reported}")
    for line in breaker_lines(breaker):
        console.print(line)
    repeats, tries = check.repeats or 0, check.tries or 0
    if tries > repeats:
        console.print(f"{plural(repeats, 'repeat')}, {plural(tries, 'try', 'tries')}")
    result = "[green]valid[/green]" if check.valid else "[red]not a valid measurement[/red]"
    console.print(f"{escape(check.batch)}: {result}")

"""`make wires`: ask with the newest SDKs and agents, and print what differs from the kept facts.

And each private name of a harness that an adapter uses and that its newest release has elsewhere.

`make wires ARGS=--accept` keeps what is now seen, and writes docs/reference/wires.md.
It exits with 1 for a difference, with 2 if a package index cannot be reached.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import metadata
from typing import Any, TypeAlias

from tests.agents.__main__ import SkipError
from tests.agents.programs import Program
from tests.reference_pages import write
from tests.wires import agents, facts, installing, page, private, recording
from tests.wires.asking import SDKS

UNREACHABLE = 2
LOCKED = frozenset(("openai", "anthropic", "google-genai"))  # requirements-dev.lock
Job: TypeAlias = Callable[[str], list[dict[str, Any]]]


def main(arguments: Sequence[str]) -> int:
    """Compare, or accept; nothing is written unless all were asked."""
    options = _options(arguments)
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    kept, seen, lines = facts.kept(), list[facts.Facts](), list[str]()
    for job in _jobs(options):
        try:
            seen += job(day)
        except installing.UnreachableError as error:
            _say(f"wires: {error}")
            return UNREACHABLE
        except SkipError as skipped:
            _say(f"wires: agents are not compared: {skipped}")
        except recording.RecordingError as error:
            lines.append(str(error))
    try:
        lines += _moved(options)
    except installing.UnreachableError as error:
        _say(f"wires: {error}")
        return UNREACHABLE
    for now in seen:
        lines += facts.differences(kept.get(now["name"], {}), now)
        for line in facts.unread(now):
            _say(f"{now['name']} {now['version']}: no dialect reads {line}")
    _say("\n".join(lines) or "wires: no difference from the kept facts")
    if not options.accept:
        return 1 if lines else 0
    for now in seen:
        facts.keep(now)
    write(facts.ROOT, page.generated())
    return 0 if len(seen) == len(list(_jobs(options))) else 1


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make wires", description=__doc__)
    names = [*SDKS, *(each.name for each in agents.WATCHED), *private.ADAPTERS]
    parser.add_argument("--only", action="append", choices=names, help="this one, not all")
    parser.add_argument("--accept", action="store_true", help="keep what is now seen")
    return parser.parse_args(arguments)


def _jobs(options: argparse.Namespace) -> Iterator[Job]:
    """Yield what records each SDK or agent that is wanted."""
    for name in SDKS:
        if not options.only or name in options.only:
            yield partial(_sdk, name, accept=options.accept)
    for program in agents.WATCHED:
        if not options.only or program.name in options.only:
            yield partial(_agent, program)


def _moved(options: argparse.Namespace) -> Iterator[str]:
    """Yield what the newest releases of harnesses have moved."""
    for adapter, known in private.ADAPTERS.items():
        if not options.only or adapter in options.only:
            yield from private.moved(adapter, *installing.newest_source(known["package"]))


def _sdk(name: str, day: str, *, accept: bool) -> list[dict[str, Any]]:
    """Record the newest release, and this environment's if that is another."""
    newest = recording.sdk(name, installing.newest_sdk(name), day)
    if accept or name not in LOCKED or metadata.version(name) == newest["version"]:
        return [newest]
    return [newest, recording.sdk(name, sys.executable, day)]


def _agent(program: Program, day: str) -> list[dict[str, Any]]:
    return [agents.recorded(program, installing.newest_agent(program), day)]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

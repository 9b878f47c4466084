"""``make fuzz``: everything of tests/fuzz, round after round, for as long as it is told.

Where atheris is installed (``pip install atheris``), the rooms without a socket are fuzzed by
coverage too; where it is not, one line says so.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Final

from hypothesis import settings

from tests.fuzz.peers import SIDES
from tests.fuzz.pure import PROPERTIES, prepared
from tests.fuzz.rounds import described, side

_EXAMPLES: Final = 200


def opened(stack: ExitStack) -> Iterator[tuple[str, Callable[[], None]]]:
    """Every round, by its name."""
    for name in PROPERTIES:
        yield name, prepared(name, _EXAMPLES)
    for name in SIDES:
        yield name, stack.enter_context(side(name, _EXAMPLES))
    for shown in (True, False):
        name = f"openapi {'with' if shown else 'without'} the token"
        yield name, stack.enter_context(described(_EXAMPLES // 4, shown=shown))


def tried(name: str, one: Callable[[], None], seconds: float) -> bool:
    """Go round for a while; whether it always held."""
    began, rounds = time.monotonic(), 0
    while rounds == 0 or time.monotonic() - began < seconds:
        try:
            one()
        except Exception:
            traceback.print_exc()
            print(f"  {name:28} FAILED in round {rounds + 1}", flush=True)
            return False
        rounds += 1
    print(f"  {name:28} held for {rounds} rounds, {time.monotonic() - began:.0f} s", flush=True)
    return True


def covered(name: str, seconds: float) -> bool:
    """Fuzz one property by coverage, in a process of its own: atheris ends it."""
    command = [sys.executable, "-m", "tests.fuzz.coverage", name, str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout, done.stderr)
    lasts = [line for line in done.stderr.splitlines() if "cov:" in line]
    told = lasts[-1].strip() if lasts else "no coverage was seen"
    print(f"  {name:28} {'FAILED' if done.returncode else 'held'} by coverage: {told}", flush=True)
    return done.returncode == 0


def main() -> int:
    """Go through all of it; 1 where anything did not hold."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("only", nargs="*", help="names of what to fuzz  [default: everything]")
    options = parser.parse_args()
    logging.getLogger().setLevel(logging.ERROR)
    settings.register_profile("anew", derandomize=False)  # each round, in CI too
    settings.load_profile("anew")
    with ExitStack() as stack:
        rounds = [one for one in opened(stack) if not options.only or one[0] in options.only]
        pure = [name for name, _ in rounds if name in PROPERTIES]
        by_coverage = pure if find_spec("atheris") else []
        share = options.minutes * 60 / max(1, len(rounds) + len(by_coverage))
        held = [tried(name, one, share) for name, one in rounds]
    held += [covered(name, share) for name in by_coverage]
    if not by_coverage:
        print("  atheris is not installed: nothing was fuzzed by coverage")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())

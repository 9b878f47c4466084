"""`make attack`: attacks on claims in order, then tricks; prints what held, exits with 1 if not.

Tricks that are known to reach something are in docs/measurements/attribution.md.
"""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.arena import score
from tests.arena.score import Score
from tests.attack import tricks
from tests.attack.all import CLAIMS, TRICKS
from tests.attack.claims import Claim
from tests.attack.stage import Stage, staged


def broken(stage: Stage, claim: Claim) -> str | None:
    """Attack one claim; return what broke it, None where it held."""
    stage.reset()
    try:
        claim.attack(stage)
    except Exception as error:  # an attack that cannot be made proves nothing either
        line = traceback.extract_tb(error.__traceback__)[-1]
        said = (str(error) or type(error).__name__).partition("\n")[0]
        return f"line {line.lineno}: {line.line} ({said[:200]})"
    return None


def claims(words: Sequence[str]) -> int:
    """Attack the claims whose names hold one of these words; return how many are broken."""
    wanted = [claim for claim in CLAIMS if _named(claim.name, words)]
    if not wanted:
        return 0
    count = 0
    with tempfile.TemporaryDirectory() as folder, staged(Path(folder)) as stage:
        for claim in wanted:
            started = time.perf_counter()
            found = broken(stage, claim)
            took = time.perf_counter() - started
            verdict = "held" if found is None else "BROKEN"
            print(f"{verdict}: {claim.sentence} ({claim.name}, {took:.2f} s)", flush=True)
            if found is not None:
                count += 1
                print(f"        {found}", flush=True)
    print(f"{len(wanted) - count} of {len(wanted)} claims held")
    return count


def tried(words: Sequence[str]) -> list[Score]:
    """Try the tricks whose names hold one of these words, or all."""
    wanted = [trick for trick in TRICKS if _named(trick.name, words)]
    with tempfile.TemporaryDirectory() as folder:
        return tricks.scores(wanted, Path(folder))


def _named(name: str, words: Sequence[str]) -> bool:
    return not words or any(word in name for word in words)


def main() -> int:
    """Run claims, then tricks; return the exit code."""
    options = score.options(__doc__)
    count = claims(options.words)
    return score.report("attack", tried(options.words), options) or int(count > 0)


if __name__ == "__main__":
    sys.exit(main())

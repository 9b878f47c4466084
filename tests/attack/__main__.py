"""Run all attacks and print whether each claim held; exit with 1 where one is broken."""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.attack.all import CLAIMS
from tests.attack.claims import Claim
from tests.attack.stage import Stage, staged


def broken(stage: Stage, claim: Claim) -> str | None:
    """Try one attack; return what it reached, None where the claim held."""
    stage.reset()
    try:
        claim.attack(stage)
    except Exception as error:  # one that cannot be tried to its end proves nothing
        tried = traceback.extract_tb(error.__traceback__)[-1]
        said = (str(error) or type(error).__name__).partition("\n")[0]
        return f"line {tried.lineno}: {tried.line} ({said[:200]})"
    return None


def main() -> int:
    """Run them in order; return the exit code."""
    count = 0
    with tempfile.TemporaryDirectory() as folder, staged(Path(folder)) as stage:
        for claim in CLAIMS:
            started = time.perf_counter()
            found = broken(stage, claim)
            took = time.perf_counter() - started
            line = f"held: {claim.sentence}" if found is None else f"BROKEN: {claim.sentence}"
            print(f"{line} ({claim.name}, {took:.2f} s)", flush=True)
            if found is not None:
                count += 1
                print(f"        {found}", flush=True)
    print(f"{len(CLAIMS) - count} of {len(CLAIMS)} claims held")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())

"""Run all attacks and print whether each claim held; exit with 1 where one is broken."""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.arena.arena import arena
from tests.attack.all import CLAIMS, HOUSES, TRICKS
from tests.attack.claims import Claim
from tests.attack.stage import Stage, staged
from tests.attack.tricks import broken as tried


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


def tricks(home: Path) -> int:
    """Try all tricks on the reference call; return how many reached something."""
    count, families = 0, Counter[str]()
    with arena(home, houses=HOUSES) as stage:
        for one in TRICKS:
            started = time.perf_counter()
            found = tried(stage, one)
            took = time.perf_counter() - started
            print(f"{'held' if found is None else 'BROKEN'}: {one.name} ({took:.2f} s)", flush=True)
            print(f"        {one.why if found is None else found}", flush=True)
            families[one.family] += found is None
            count += found is not None
        stage.settle()
        for agent in stage.zeros:
            verdict = agent.verdict()
            if verdict["scoreable"] != "yes":
                count += 1
                print(f"BROKEN: a zero that counted was lost later: {agent.id} {verdict}")
    for family, tries in Counter(one.family for one in TRICKS).items():
        print(f"{family:32} {families[family]:4} of {tries}")
    print(f"{len(TRICKS) - count} of {len(TRICKS)} tricks held")
    return count


def main() -> int:
    """Run claims in order, then tricks; return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        reached = tricks(Path(folder))
    return 1 if claims() + reached else 0


def claims() -> int:
    """Run all attacks on claims; return how many are broken."""
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
    return count


if __name__ == "__main__":
    sys.exit(main())

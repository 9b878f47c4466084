"""``make audit``: is a pinned dependency known to be vulnerable? Asks PyPI through pip-audit.

It never fails for want of a network: then it says in one line that nothing was looked up.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LOCK = Path(__file__).parent.parent / "requirements.lock"
PATIENCE_S = 20.0

_COMMAND = (
    sys.executable, "-m", "pip_audit", "--requirement", str(LOCK), "--no-deps", "--disable-pip",
    "--format", "json", "--progress-spinner", "off", "--timeout", "5",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was found: how many packages were looked up, how many not, and what is wrong."""

    looked_up: int = 0
    missed: int = 0
    vulnerable: tuple[str, ...] = ()

    def told(self) -> str:
        """The whole of it, a line each."""
        if self.vulnerable:
            return "\n".join(self.vulnerable)
        if not self.looked_up:
            return "audit: no data on vulnerabilities can be reached, nothing was looked up"
        missed = f", {self.missed} could not be looked up" if self.missed else ""
        return f"audit: {self.looked_up} pinned packages, none known to be vulnerable{missed}"


def audit(options: Sequence[str] = (), *, patience_s: float = PATIENCE_S) -> Audit:
    """Look every pinned package up.

    Arguments:
        options: further ones of pip-audit's.
        patience_s: for all of it, in seconds.
    """
    try:
        done = subprocess.run(
            [*_COMMAND, *options], capture_output=True, timeout=patience_s, check=False
        )
    except subprocess.TimeoutExpired:
        return Audit()
    return read(done.stdout)


def read(report: bytes) -> Audit:
    """Read pip-audit's JSON; anything else, as where no network is, proves nothing."""
    try:
        packages = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return Audit()
    looked_up = [package for package in packages if "skip_reason" not in package]
    return Audit(
        looked_up=len(looked_up),
        missed=len(packages) - len(looked_up),
        vulnerable=tuple(
            f"{package['name']} {package['version']}: {known['id']}, mended in "
            f"{', '.join(known['fix_versions']) or 'no release yet'}"
            for package in looked_up
            for known in package["vulns"]
        ),
    )


def main() -> int:
    """Print what was found; 1 where a package is known to be vulnerable."""
    found = audit(sys.argv[1:])
    print(found.told())  # noqa: T201
    return 1 if found.vulnerable else 0


if __name__ == "__main__":
    sys.exit(main())

"""`make agents`: install real agents, fail their provider, and print what each of them did.

It works where nothing but loopback can be reached, in a namespace of its own, or not at all.
"""

from __future__ import annotations

import argparse
import datetime
import errno
import itertools
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.agents import page
from tests.agents.measure import FAULTS, INSTALLED, WELL, Measured, MeasureError, measured
from tests.agents.programs import PROGRAMS, Program
from tests.agents.provider import obliging
from tests.fakes.provider import Provider
from tests.reference_pages import replaced

HERE = Path(__file__).parent
TIMEOUT_S = 90.0
AT_ONCE = 3  # most of the time an agent only waits
_INSIDE = "--inside"
_NPM = ("npm", "install", "--no-audit", "--no-fund", "--no-package-lock")
_NAMESPACE = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
_FOR_USERS = ("--user", "--map-root-user")  # root needs no leave for it
_ELSEWHERE = ("192.0.2.1", 443)  # RFC 5737: nobody's address


class SkipError(Exception):
    """Why nothing is measured here, in one sentence."""


def main() -> None:
    """Install, then run this again inside the namespace."""
    options = _options()
    try:
        if options.inside:
            _measure(options)
        else:
            _install()
            inside = (sys.executable, "-m", "tests.agents", _INSIDE, *sys.argv[1:])
            sys.exit(subprocess.run((*namespace(), *inside), check=False).returncode)
    except SkipError as skipped:
        _say(f"skipped: {skipped}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make agents", description=__doc__)
    names = [program.program for program in PROGRAMS]
    parser.add_argument("--agent", action="append", choices=names, help="only this one")
    parser.add_argument("--fault", action="append", choices=(WELL, *FAULTS), help="only this one")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="seconds for one run")
    parser.add_argument(_INSIDE, action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _say(line: str) -> None:
    sys.stderr.write(f"agents: {line}\n")


# --- outside: with the network, and without the agents -------------------------------------


def _install() -> None:
    """Put the pinned agents into a folder of their own.

    Raises:
        SkipError: npm is absent, or could not.
    """
    if shutil.which("npm") is None:
        raise SkipError("npm is not there")
    pins = (HERE / "package.json").read_bytes()
    mark = INSTALLED / "installed"
    if mark.is_file() and mark.read_bytes() == pins:
        return
    INSTALLED.mkdir(exist_ok=True)
    (INSTALLED / "package.json").write_bytes(pins)
    done = subprocess.run(_NPM, cwd=INSTALLED, check=False)
    if done.returncode:
        raise SkipError("npm could not install the agents")
    mark.write_bytes(pins)


def namespace() -> tuple[str, ...]:
    """Return the command that runs another in a namespace whose processes all end with it.

    Raises:
        SkipError: this machine has none for us.
    """
    command = _NAMESPACE if os.geteuid() == 0 else (*_NAMESPACE, *_FOR_USERS)
    try:
        allowed = subprocess.run((*command, "true"), check=False, capture_output=True)
    except FileNotFoundError:
        raise SkipError("there is no unshare here") from None
    if allowed.returncode:
        raise SkipError(f"no network namespace: {allowed.stderr.decode().strip()}")
    return command


# --- inside: with the agents, and without the network --------------------------------------


def _measure(options: argparse.Namespace) -> None:
    seal()
    programs = [one for one in PROGRAMS if not options.agent or one.program in options.agent]
    faults = [one for one in (WELL, *FAULTS) if not options.fault or one in options.fault]
    with Provider(obliging) as provider:
        rows = _all(programs, faults, options.timeout, provider.url)
    sys.stdout.write(page.table(rows) + "\n")
    if len(rows) == len(PROGRAMS) * (1 + len(FAULTS)):
        told = f"{_when(options.timeout)}\n\n{page.table(rows)}"
        text = replaced(page.PAGE.read_text("utf-8"), "measured", told)
        page.PAGE.write_text(text, encoding="utf-8")
        _say(f"written to {page.PAGE.name}")


def seal() -> None:
    """Raise loopback, and see that there is nothing else.

    Raises:
        SkipError: loopback stays down, or this is no place without a network.
    """
    if [name for _, name in socket.if_nameindex()] != ["lo"]:
        raise SkipError("there are other networks here than loopback")
    try:
        subprocess.run(("ip", "link", "set", "lo", "up"), check=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise SkipError(f"loopback could not be raised: {error}") from error
    with socket.socket() as outward:
        outward.settimeout(1)
        if outward.connect_ex(_ELSEWHERE) != errno.ENETUNREACH:
            raise SkipError("addresses outside can be reached from here")


def _all(
    programs: Sequence[Program], faults: Sequence[str], timeout_s: float, upstream: str
) -> list[Measured]:
    def one(asked: tuple[Program, str]) -> Measured | None:
        return _one(*asked, timeout_s, upstream)

    with ThreadPoolExecutor(AT_ONCE) as runs:
        return [row for row in runs.map(one, itertools.product(programs, faults)) if row]


def _one(program: Program, fault: str, timeout_s: float, upstream: str) -> Measured | None:
    """One run, told as it ends; one that came to nothing leaves the page as it was."""
    try:
        row = measured(program, fault, timeout_s, upstream)
    except MeasureError as error:
        _say(f"{program.name}, {fault}: not measured: {error}")
        return None
    found = page.verdict_of(row)
    _say(f"{row.agent}, {row.fault}: {row.conduct} ({row.seconds:.0f} s): {found}")
    return row


def _when(timeout_s: float) -> str:
    day = datetime.datetime.now(datetime.UTC).date()
    return (
        f"Measured on {day} on a machine with {os.cpu_count()} cores, {AT_ONCE} agents at a time, "
        f"each stopped after {timeout_s:g} s."
    )


if __name__ == "__main__":
    main()

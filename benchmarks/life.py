"""What a rollout's life costs, by step: statements, and CPU time as multiples of a plain call.

    python -m benchmarks.life [--rounds 15] [--rollouts 25] [--beside FOLDER]

A rollout is registered, makes one call, and has its outcome reported, which is answered with its
verdict. All is done one at a time, on SQLite and, where it is installed, on PostgreSQL. A plain
call is one of a rollout that has called before; each step is compared with it inside a round, and
the median of the rounds is shown, so that other work on the machine does not show. CPU time is the
kernel's count of the service and, beside it, of PostgreSQL's server. ``--beside`` takes turns with
the code in another folder, such as a checkout from before a change.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import socket
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import uvicorn
from sqlalchemy import Engine, event

from benchmarks import machine, subjects
from benchmarks.run import build_tools, say
from benchmarks.scaling import Place, places
from benchmarks.subjects import ROOT, Stage
from proxy.app import Application
from proxy.inbound.http import HttpProtocol
from proxy.settings import load

PLAIN, REGISTRATION, CALL, REPORT = "a plain call", "registration", "first call", "report"
STEPS = (PLAIN, REGISTRATION, CALL, REPORT)
GOALS = {REGISTRATION: 1.5, REPORT: 3.0}
"""Times the CPU of a plain call, on SQLite."""
REPEATS = 8
COUNTED = 10
_ASK = {"model": "mock-100-10", "messages": [{"role": "user", "content": "Is it true?"}]}
_OUTCOME = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 1.0}}
_SETTLED_S = 0.1  # what is written a moment later counts as well
_PATIENCE_S = 60.0
_CALLER = "caller"


class Runner:
    """A runner and its agents, on one connection to a service.

    Arguments:
        prefix: of the names of its rollouts, so that no two runners share one.
    """

    def __init__(self, port: int, prefix: str) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_S)
        self._prefix = prefix

    def take(self, step: str, number: int) -> None:
        """Take one rollout through one step.

        Raises:
            RuntimeError: it was refused.
        """
        name = f"{self._prefix}{number}"
        if step == REGISTRATION:
            task, repeat = divmod(number, REPEATS)
            placed = {"id": name, "batch": self._prefix, "task": f"t{task}", "repeat": repeat}
            self._ask("/rollouts", placed)
        elif step == REPORT:
            self._ask(f"/rollouts/{name}/outcome", _OUTCOME)
        else:
            caller = f"{self._prefix}{_CALLER}" if step == PLAIN else name
            self._ask(f"/r/{caller}/openai{subjects.CHAT}", _ASK)

    def settle_in(self) -> None:
        """Do everything once, so that what is made at first use is made, and stays out of counts.

        Raises:
            RuntimeError: it was refused.
        """
        self._ask("/rollouts", {"id": f"{self._prefix}{_CALLER}", "batch": _CALLER})
        for number in range(-2 * REPEATS, 0):
            for step in STEPS:
                self.take(step, number)

    def _ask(self, path: str, body: Mapping[str, object]) -> None:
        headers = {"Content-Type": "application/json"}
        self._http.request("POST", path, json.dumps(body), headers)
        answer = self._http.getresponse()
        said = answer.read()
        if answer.status not in (200, 201):
            raise RuntimeError(f"{path}: {answer.status} {said[:300]!r}")


# --- statements ----------------------------------------------------------------------------------


def count_statements(url: str, provider_port: int) -> dict[str, int]:
    """Count the statements of each step: the median of ten, which leaves out a round beside them.

    Arguments:
        url: of a database that is prepared.
    """
    said = 0

    def hears(*heard: Any) -> None:
        nonlocal said
        said += not heard[2].startswith(("BEGIN", "COMMIT", "ROLLBACK"))

    counts: defaultdict[str, list[int]] = defaultdict(list)
    with _in_this_process(url, provider_port) as port:
        runner = Runner(port, "counted")
        runner.settle_in()
        event.listen(Engine, "before_cursor_execute", hears)
        try:
            for number in range(COUNTED):
                for step in STEPS:
                    said = 0
                    runner.take(step, number)
                    counts[step].append(said)
        finally:
            event.remove(Engine, "before_cursor_execute", hears)
    return {step: round(median(counts[step])) for step in STEPS}


@contextlib.contextmanager
def _in_this_process(url: str, provider_port: int) -> Iterator[int]:
    """Run the service in a thread; yield its port."""
    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as stack:
        environment = {
            "TRUEZERO_DATABASE_URL": url,
            "TRUEZERO_UPSTREAM_OPENAI": f"http://127.0.0.1:{provider_port}",
            "TRUEZERO_SPILL_DIR": home,
        }
        app = Application(load({}, environment), environment)
        config = uvicorn.Config(
            app, http=HttpProtocol, loop="uvloop", lifespan="on", access_log=False, log_config=None
        )
        server = uvicorn.Server(config)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(_PATIENCE_S)


# --- CPU time ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """CPU microseconds of one step in a round: the service's, and the database server's."""

    service_us: float
    server_us: float


Round = Mapping[str, Spent]


@dataclass(frozen=True, slots=True, kw_only=True)
class Living:
    """A running service whose CPU time is measured."""

    code: Path
    place: Place
    pid: int
    runner: Runner

    def round(self, first: int, rollouts: int) -> dict[str, Spent]:
        """Take so many rollouts through their lives, step by step, from a number on."""
        found = {}
        for step in STEPS:
            service, server = machine.cpu_s(self.pid), self.place.cpu_s
            for number in range(first, first + rollouts):
                self.runner.take(step, number)
            time.sleep(_SETTLED_S)
            service, server = machine.cpu_s(self.pid) - service, self.place.cpu_s - server
            found[step] = Spent(
                service_us=service / rollouts * 1e6, server_us=server / rollouts * 1e6
            )
        return found


@contextlib.contextmanager
def _living(stage: Stage, place: Place, code: Path, prefix: str) -> Iterator[Living]:
    """Run ``truezero serve`` on a database, with the code of a folder."""
    port = machine.free_port()
    with tempfile.TemporaryDirectory() as home:
        env = subjects.serve_env(stage, Path(home), code) | {
            "TRUEZERO_DATABASE_URL": place.url,
            "TRUEZERO_SPILL_DIR": home,
        }
        command = subjects.serve_command(port)
        with machine.running(command, core=None, env=env, cwd=Path(home)) as process:
            machine.wait_for_port(port, process)
            runner = Runner(port, prefix)
            runner.settle_in()
            yield Living(code=code, place=place, pid=process.pid, runner=runner)


def measure(
    stage: Stage, codes: Sequence[Path], *, rounds: int, rollouts: int
) -> dict[tuple[str, Path], list[Round]]:
    """Measure all rounds, by database and code, each of which has a database of its own."""
    found: defaultdict[tuple[str, Path], list[Round]] = defaultdict(list)
    with contextlib.ExitStack() as stack:
        services = [
            stack.enter_context(_living(stage, place, code, f"n{number}-"))
            for number, code in enumerate(codes)
            for place in stack.enter_context(places())
        ]
        for number in range(rounds):
            turns = services if number % 2 else reversed(services)
            for each in turns:
                found[each.place.name, each.code].append(each.round(number * rollouts, rollouts))
    return dict(found)


def multiple(rounds: Sequence[Round], step: str, part: Callable[[Spent], float]) -> float:
    """Return the median of a step's CPU time over that of a plain call's, inside each round."""
    return median(part(each[step]) / (part(each[PLAIN]) or 1.0) for each in rounds)


# --- the table -----------------------------------------------------------------------------------


def table(
    statements: Mapping[str, Mapping[str, int]],
    measured: Mapping[tuple[str, Path], Sequence[Round]],
) -> list[str]:
    """Return the rows of the table.

    Arguments:
        statements: of this folder's code, by database and step.
        measured: rounds by database and code.
    """
    rows = [
        "| database | step | statements | × a plain call | CPU µs | PostgreSQL's server, CPU µs |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for (database, code), rounds in measured.items():
        own = code == ROOT
        for step in STEPS:
            count = f"{statements[database][step]}" if own else "–"
            times = multiple(rounds, step, lambda spent: spent.service_us)
            service, server = (
                median(getattr(each[step], name) for each in rounds)
                for name in ("service_us", "server_us")
            )
            where = database if own else f"{database}, {code}"
            shown = f"{server:,.0f}" if server else "–"
            rows.append(f"| {where} | {step} | {count} | {times:.2f} | {service:,.0f} | {shown} |")
    return rows


def main() -> None:
    """Measure, and print the table with what is over its goal."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.life", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rollouts", type=int, default=25, help="of each round")
    parser.add_argument("--beside", type=Path, help="a folder of other code, which takes turns")
    given = parser.parse_args()
    codes = [ROOT, *filter(None, [given.beside and given.beside.resolve()])]
    tools, port = build_tools(), machine.free_port()
    with machine.running([tools / "provider", str(port)], core=None) as provider:
        machine.wait_for_port(port, provider)
        say(f"{machine.description()}, {machine.busy_percent():.0f} % busy with other work")
        with places() as databases:
            statements = {each.name: count_statements(each.url, port) for each in databases}
        stage = Stage(provider_port=port, patience_s=_PATIENCE_S)
        measured = measure(stage, codes, rounds=given.rounds, rollouts=given.rollouts)
    say("\n".join(table(statements, measured)))
    for step, goal in GOALS.items():
        over = multiple(measured["SQLite", ROOT], step, lambda spent: spent.service_us) > goal
        say(f"{step}: goal {goal:g} times a plain call{', not reached' if over else ''}")


if __name__ == "__main__":
    main()

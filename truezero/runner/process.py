"""The agent's process: signals and the terminal are passed on to it, its output is untouched."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

from truezero.runner.equipment import Equipment
from truezero.sdk.client import Client
from truezero.sdk.errors import ServiceError

NOT_FOUND = 127  # the convention of shells
NOT_EXECUTABLE = 126

_WATCH_S = 0.3
_GRACE_S = 0.5  # between SIGTERM and SIGKILL for a doomed agent

_FORWARDED = tuple(
    getattr(signal, name)
    for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGWINCH")
    if hasattr(signal, name)
)
_ENDING = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """How a command ended.

    ``agent_code`` is its exit status, or minus the signal that ended it; None if it was not
    started. ``doomed``: stopped because the rollout could not succeed. ``forwarded``: the last
    terminating signal that was passed on to it.
    """

    agent_code: int | None
    doomed: bool = False
    forwarded: signal.Signals | None = None

    @property
    def shell_code(self) -> int:
        """The exit code as a shell reports it: 128 plus the signal's number."""
        code = self.agent_code or 0
        return 128 - code if code < 0 else code


def started(equipment: Equipment) -> subprocess.Popen[bytes]:
    """Start the command in a process group of its own.

    Raises:
        OSError: the command cannot be started.
    """
    return subprocess.Popen(  # noqa: S603  what the user asked for
        equipment.command, env=dict(equipment.environment), process_group=0
    )


def not_started(error: OSError) -> tuple[int, str]:
    """Return the exit code, and the reason, of a command that could not be started."""
    if isinstance(error, FileNotFoundError):
        return NOT_FOUND, "command not found"
    return NOT_EXECUTABLE, "cannot be executed"


@contextmanager
def terminal_for(group: int) -> Iterator[None]:
    """Give the terminal to the agent, so that it can read input and receives Ctrl-C."""
    ours = os.getpgrp()
    if not _have_terminal(ours):
        yield
        return
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # taking the terminal back would stop us
    try:
        with suppress(OSError):
            os.tcsetpgrp(0, group)
            os.killpg(group, signal.SIGCONT)  # it may have stopped on reading input too early
        yield
    finally:
        with suppress(OSError):
            os.tcsetpgrp(0, ours)
        signal.signal(signal.SIGTTOU, before)


def _have_terminal(group: int) -> bool:
    try:
        return os.isatty(0) and os.tcgetpgrp(0) == group
    except OSError:
        return False


def accompanied(
    process: subprocess.Popen[bytes], client: Client, rollout_id: str, *, fail_fast: bool
) -> ProcessResult:
    """Wait for the process; forward signals, and stop a doomed one with ``fail_fast``."""
    over = threading.Event()
    watch = _Watch(process, client, rollout_id, over)
    with _forwarding(process.pid) as forwarded:
        if fail_fast:
            watch.start()
        code = process.wait()
        over.set()
    if fail_fast:
        watch.join()
    return ProcessResult(
        agent_code=code, doomed=watch.stopped, forwarded=forwarded[-1] if forwarded else None
    )


class _Watch(threading.Thread):
    """Polls whether the rollout is doomed, and then stops its processes."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        client: Client,
        rollout_id: str,
        over: threading.Event,
    ) -> None:
        super().__init__(name="fail-fast", daemon=True)
        self._process = process
        self._client = client
        self._rollout_id = rollout_id
        self._over = over
        self.stopped = False

    def run(self) -> None:
        """Poll until the agent has ended or was stopped."""
        while not self._over.wait(_WATCH_S):
            if self._doomed():
                self.stopped = True
                signal_group(self._process.pid, signal.SIGTERM)
                if not self._over.wait(_GRACE_S):
                    signal_group(self._process.pid, signal.SIGKILL)
                return

    def _doomed(self) -> bool:
        try:
            return self._client.verdict(self._rollout_id).doomed
        except ServiceError:
            return False  # the end of the run calls the service again and reports the error


@contextmanager
def _forwarding(group: int) -> Iterator[list[signal.Signals]]:
    """Forward signals to the agent; the yielded list collects the terminating ones."""
    ending: list[signal.Signals] = []

    def forward(number: int, _frame: FrameType | None) -> None:
        if number in _ENDING:
            ending.append(signal.Signals(number))
        signal_group(group, signal.Signals(number))

    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, forward) for number in _FORWARDED}
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group, if it is still there and ours."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)

"""``truezero`` as a process, forked from one that has loaded it: a start without its imports.

A command's own work takes 20 ms, loading the service for it 700. What is started here is a
process like any other: with its own arguments, environment, folder, input, output, signals and
exit code, and it runs ``truezero/__main__.py`` as ``python -m truezero`` does; so are its workers,
which it would start by an interpreter each. What a start loads, and that it loads it, is not seen
here, nor what an interpreter clears at its very end; tests about that start an interpreter. It
writes no lines of progress, however long a busy machine keeps it.
"""
# ruff: noqa: SLF001
# Private: atexit has no public name for what a fork must forget and do.

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import util
from pathlib import Path
from typing import IO, Any

from prometheus_client import values

ROOT = Path(__file__).parent.parent
PATIENCE_S = 600.0
_WORKER = "worker"  # as Linux names the process
_ADDRESS = "FORKED_AT"  # in the environment: the socket of whoever offers commands
_END = b"e"
_ALONE_S = 5.0  # a fork source looks as often whether who started it is there

_exit_codes: list[int] = []  # of the command that this process became
_cpu_us: list[int] = []  # of each command that ended, with the workers it waited for

# What commands load where they need it, so that no fork has to.
_LOADED = (
    "alembic.command", "alembic.ddl.postgresql", "anyio._backends._asyncio", "classifier.__main__",
    "encodings.idna", "httpcore", "proxy.app", "proxy.control_plane", "proxy.server.serve",
    "proxy.store.admin.backup", "proxy.web", "psycopg", "pydantic.v1", "rich._emoji_codes",
    "rich.console", "rich.status", "rich.table",
    "sqlalchemy.dialects.postgresql.psycopg", "sqlalchemy.dialects.sqlite", "truezero.cli",
    "truezero.sdk._sync.client", "truezero.runner.demo", "truezero.runner.doctor",
    "truezero.runner.drills", "truezero.cli.machine", "truezero.runner.run",
    "uvicorn.lifespan.on", "uvicorn.loops.uvloop", "uvloop",
)  # fmt: skip


class Process:
    """A command that was started; used as ``subprocess.Popen`` is."""

    def __init__(self, told: socket.socket) -> None:
        self._told = told
        self._lock = threading.Lock()
        self.returncode: int | None = None
        pid = self._next(PATIENCE_S)
        assert pid is not None, "no command was started"
        self.pid = pid

    def poll(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code once it has ended.

        Raises:
            subprocess.TimeoutExpired: it runs still.
        """
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("truezero", timeout or 0)
        return code

    def send_signal(self, how: int) -> None:
        """Nothing where it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, how)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        with self._lock:
            if self.returncode is None:
                self.returncode = self._next(timeout)
                if self.returncode is not None:
                    _cpu_us.append(self._next(PATIENCE_S) or 0)
                    self._told.close()
            return self.returncode

    def _next(self, timeout: float | None) -> int | None:
        """The next number that we are told: its process id, its exit code, its CPU microseconds."""
        self._told.settimeout(timeout)
        try:
            said = self._told.recv(8, socket.MSG_WAITALL)
        except (BlockingIOError, TimeoutError):
            return None
        assert len(said) == 8, "who waits for the command has gone"
        return int.from_bytes(said, "big", signed=True)


def start(
    *words: str,
    cwd: Path,
    env: Mapping[str, str],
    stdin: IO[Any] | int = subprocess.DEVNULL,
    stdout: IO[Any] | int = subprocess.DEVNULL,
    stderr: IO[Any] | int = subprocess.DEVNULL,
) -> Process:
    """Start ``truezero WORDS…``; descriptors are files or numbers, and stay the caller's."""
    ours, theirs = socket.socketpair()
    with open(os.devnull, "r+b", buffering=0) as nothing, theirs:  # noqa: PTH123
        streams = (
            nothing if each == subprocess.DEVNULL else each for each in (stdin, stdout, stderr)
        )
        numbers = [each if isinstance(each, int) else each.fileno() for each in streams]
        socket.send_fds(_asking(), [b"."], [theirs.fileno(), *numbers])
    asked = {"words": words, "cwd": str(cwd), "env": dict(env)}
    ours.sendall(json.dumps(asked).encode() + b"\n")
    return Process(ours)


def run(
    *words: str, cwd: Path, env: Mapping[str, str], given: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run ``truezero WORDS…`` to its end on three pipes, as ``subprocess.run`` does for texts."""
    done = run_bytes(*words, cwd=cwd, env=env, given=given.encode())
    out, err = (text.decode() for text in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def run_bytes(
    *words: str, cwd: Path, env: Mapping[str, str], given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """The same for bytes."""
    (read, feed), (out, out_end), (err, err_end) = os.pipe(), os.pipe(), os.pipe()
    try:
        process = start(*words, cwd=cwd, env=env, stdin=read, stdout=out_end, stderr=err_end)
    finally:
        for end in (read, out_end, err_end):
            os.close(end)
    with ThreadPoolExecutor(3) as reading:
        fed = reading.submit(_feed, feed, given)
        heard = [reading.submit(_heard, end) for end in (out, err)]
        try:
            process.wait(PATIENCE_S)
        finally:
            process.kill()
    fed.result()
    code = process.wait()
    return subprocess.CompletedProcess(words, code, *(each.result() for each in heard))


def cpu_s() -> float:
    """CPU seconds of the commands that were started here and have been waited for."""
    return sum(_cpu_us) / 1e6


def serves(process: Path) -> bool:
    """Whether a process, by its folder in /proc, is a worker of a command and no zombie."""
    try:
        about = (process / "stat").read_text()
    except OSError:
        return False
    name, _, state = about.partition(" (")[2].rpartition(") ")
    return name == _WORKER and not state.startswith("Z")


def _feed(end: int, given: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(end, "wb", buffering=0) as pipe:
        while given:
            given = given[pipe.write(given) :]


def _heard(end: int) -> bytes:
    with os.fdopen(end, "rb") as pipe:
        return pipe.read()


@contextlib.contextmanager
def offered() -> Iterator[None]:
    """Have all processes that are started meanwhile ask for commands of one that loads them once.

    It is started when the first of them asks, as a child of this process.
    """
    with tempfile.TemporaryDirectory(prefix="truezero-forked-") as folder, _datagrams() as asked:
        address = f"{folder}/asked"
        asked.bind(address)
        starting = threading.Thread(target=_start_once_asked, args=[asked], daemon=True)
        starting.start()
        os.environ[_ADDRESS] = address
        try:
            yield
        finally:
            del os.environ[_ADDRESS]
            with _datagrams() as asking:
                asking.sendto(_END, address)
            starting.join()


def _datagrams() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


def _start_once_asked(asked: socket.socket) -> None:
    """Run the process that is forked, unless the first that is asked of it is to end."""
    select.select([asked], [], [])
    if asked.recv(1, socket.MSG_PEEK) != _END:
        _start_source(asked).wait()


def _start_source(asked: socket.socket) -> subprocess.Popen[bytes]:
    clean = {name: value for name, value in os.environ.items() if "TRUEZERO" not in name}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.forked", str(asked.fileno())],
        cwd=ROOT,
        env={**clean, "PYTHONPATH": str(ROOT)},
        pass_fds=[asked.fileno()],
        stdin=subprocess.DEVNULL,
    )


@functools.cache
def _asking() -> socket.socket:
    """Where to ask for a process: of whoever offers it, else of one of our own, gone with us."""
    if _ADDRESS in os.environ:
        asking = _datagrams()
        asking.connect(os.environ[_ADDRESS])
        return asking
    asking, asked = socket.socketpair(type=socket.SOCK_DGRAM)
    with asked:
        source = _start_source(asked)

    def end() -> None:
        asking.send(_END)
        source.wait()

    atexit.register(end)
    return asking


# --- the process that is forked ------------------------------------------------------------


def main(channel: socket.socket) -> None:
    """Fork a command for each message, until told to end, or who started us has gone."""
    from proxy.server.background import tune_process

    atexit.register(_leave)  # the first to be registered runs last
    tune_process()  # as `serve` loads the service
    for name in _LOADED:
        importlib.import_module(name)
    from truezero.cli import COMMANDS, options

    for commands in COMMANDS.values():
        for place, _ in commands.values():
            importlib.import_module(f"truezero.cli.{place.partition(':')[0]}")

    options.FIRST_S = threading.TIMEOUT_MAX
    gc.collect()
    gc.freeze()  # or each process would look for garbage in it all at its end
    parent = os.getppid()
    channel.settimeout(_ALONE_S)
    while os.getppid() == parent:
        try:
            said, given, _, _ = socket.recv_fds(channel, 1, 4)
        except TimeoutError:
            continue
        if said == _END:
            break
        if os.fork() == 0:
            channel.close()
            _attend(socket.socket(fileno=given[0]), given[1:])
            return
        for number in given:
            os.close(number)
        _reap()
    deadline = time.monotonic() + 5
    while _reap() and time.monotonic() < deadline:
        time.sleep(0.01)


def _reap() -> bool:
    """Forget who has ended; whether any runs still."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _attend(told: socket.socket, streams: list[int]) -> None:
    """Start one command, say its process id, and its exit code when it ends."""
    with told.makefile("rb") as asking:
        asked = json.loads(asking.readline())
    pid = os.fork()
    if pid == 0:
        told.close()
        _become(asked, streams)
        return
    for number in streams:
        os.close(number)
    told.sendall(pid.to_bytes(8, "big", signed=True))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    spent = os.times()
    cpu_us = int((spent.children_user + spent.children_system) * 1e6)
    with contextlib.suppress(BrokenPipeError):
        told.sendall(b"".join(each.to_bytes(8, "big", signed=True) for each in (code, cpu_us)))
    os._exit(0)


def _become(asked: Mapping[str, Any], streams: list[int]) -> None:
    """Be the command; how it ends, this process ends."""
    for place, number in enumerate(streams):
        os.dup2(number, place)
        os.close(number)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", buffering=1 if os.isatty(1) else -1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    util.spawnv_passfds = _fork_for  # type: ignore[assignment]
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    sys.argv[1:] = asked["words"]
    gc.enable()
    try:
        runpy.run_module("truezero", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if isinstance(ended.code, int):
            _exit_codes.append(ended.code)
        raise
    finally:
        gc.freeze()  # the service's last act is to let go of what was kept


def _fork_for(_interpreter: object, words: Sequence[str], passed: Sequence[int]) -> int:
    """Fork what multiprocessing starts by ``python -c``, as it would find itself; its process id.

    It keeps the descriptors that it is passed, and of what the command has set up what a start
    keeps too: environment, folder, and signals that are ignored.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return pid
    code = 1
    try:
        atexit._clear()
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for open_one in [int(each.name) for each in Path("/dev/fd").iterdir()]:
            if open_one > 2 and open_one not in passed:
                with contextlib.suppress(OSError):  # the one that listed them
                    os.close(open_one)
        # Chosen by the environment when it is imported.
        values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call]
        begin = words.index("-c")
        program, sys.argv = words[begin + 1], ["-c", *words[begin + 2 :]]
        if "spawn_main" in program:
            with contextlib.suppress(OSError):
                Path("/proc/self/comm").write_text(_WORKER)
        try:
            exec(program, {"__name__": "__main__"})
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _leave() -> None:
    """End a command that said how, once its threads and its own handlers at exit have ended.

    Python would clear every module first, which copies each page that is shared with the process
    we were forked from: 75 ms, more than most commands' own work.
    """
    if _exit_codes:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_exit_codes[0])


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))

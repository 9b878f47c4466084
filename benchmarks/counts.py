"""``python -m benchmarks.counts``: bytecode instructions and Python calls that a call costs.

The service runs as it is, with its own protocol class, relay, recorder and an SQLite file; agent
and provider are this thread, which sends the next bytes only when the last ones have arrived. So
the figures are the same in every run, on however busy a machine, and a change of 1 % is real.

Counted is what runs in the service's threads, but for asyncio's own code: uvloop has that in C.
Coroutines count as called each time they go on. Timers of the event loop stand almost still,
since tracing makes everything some fifty times slower, and so does the time of day, since the
first call of a minute costs more than the next. Other versions of Python, uvicorn or SQLAlchemy
give other figures: compare two states of the code in one environment.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import json
import selectors
import socket
import struct
import sys
import tempfile
import termios
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

import uvicorn

from proxy.app import Application
from proxy.clock import epoch_s
from proxy.inbound.http import HttpProtocol
from proxy.settings import load
from proxy.store.database import Database

ROOT = Path(__file__).parent.parent
LARGE_BYTES = 100_000
_SLOWED = 10**6  # how much slower the event loop's clock runs while it is counted
_STILL_S = 0.1  # as long as this nothing runs, all that a call brings about is done
_NOT_COUNTED = (
    str(Path(asyncio.__file__).parent), selectors.__file__, threading.__file__, __file__,
)  # fmt: skip

LARGE = f"one whose request has {LARGE_BYTES // 1000} kB"
# Instructions and calls of Python 3.11 that each may cost, some 4 % over what it does, so that no
# line is bent for a few: who makes it dearer says so here, who makes it cheaper lowers the bound.
# Other versions count otherwise.
BOUNDS = {
    "a plain exchange": (5_000, 135),
    LARGE: (5_850, 158),
    "a stream of 10 chunks": (9_970, 310),
    "a chunk of a stream": (190, 5),
}
OTHER_VERSIONS = 1.15  # times a bound

_ANSWER = json.dumps({
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1_790_000_000, "model": "gpt-5",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "It is true."},
                 "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 31, "completion_tokens": 5, "total_tokens": 36,
              "prompt_tokens_details": {"cached_tokens": 8},
              "completion_tokens_details": {"reasoning_tokens": 0}},
}).encode()  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """What one thing costs: instructions and calls, and the instructions by module."""

    opcodes: float
    calls: float
    by_module: dict[str, float]

    def each(self, times: int, less: Count | None = None) -> Count:
        """Return this count minus ``less``, divided by a number of repetitions."""
        modules = set(self.by_module) | set(less.by_module if less else ())
        return Count(
            opcodes=(self.opcodes - (less.opcodes if less else 0)) / times,
            calls=(self.calls - (less.calls if less else 0)) / times,
            by_module={
                name: (self.by_module.get(name, 0) - (less.by_module.get(name, 0) if less else 0))
                / times
                for name in sorted(modules)
            },
        )


class Tracer:
    """Counts in the threads that it is set in, while ``counting``."""

    def __init__(self) -> None:
        self.counting = False
        self._opcodes: Counter[CodeType] = Counter()
        self._calls = 0

    def __call__(
        self, frame: FrameType, event: str, _argument: object
    ) -> Callable[..., Any] | None:
        """As `sys.settrace` wants it: a frame begins, or goes on."""
        if frame.f_code.co_filename.startswith(_NOT_COUNTED):
            return None
        if self.counting and event == "call":
            self._calls += 1
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._inside

    def _inside(self, frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        if event == "opcode" and self.counting:
            self._opcodes[frame.f_code] += 1
        return self._inside

    def measure(self, run: Callable[[], None]) -> Count:
        """Count while something runs, and until all that it brings about is done."""
        self._settle()
        self._opcodes.clear()
        self._calls = 0
        self.counting = True
        run()
        self._settle()
        self.counting = False
        by_module: Counter[str] = Counter()
        for code, count in self._opcodes.items():
            by_module[_module(code)] += count
        return Count(opcodes=by_module.total(), calls=self._calls, by_module=dict(by_module))

    def _settle(self) -> None:
        """Wait until nothing has run for a while."""
        was_counting, self.counting = self.counting, True
        before = -1
        while before != (before := self._opcodes.total()):
            time.sleep(_STILL_S)
        self.counting = was_counting


def _module(code: CodeType) -> str:
    file = Path(code.co_filename)
    if file.is_relative_to(ROOT) and ".venv" not in file.parts:
        return file.relative_to(ROOT).as_posix()
    parts = file.parts
    return parts[parts.index("site-packages") + 1] if "site-packages" in parts else "Python's own"


class SlowedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be slowed, so that no timer fires for being traced."""

    _pace, _real, _shown = 1.0, 0.0, 0.0

    def time(self) -> float:
        """Seconds on its clock."""
        return self._shown + (super().time() - self._real) * self._pace

    def slow(self, times: float) -> None:
        """Let the clock run so many times slower from now on."""
        self._shown, self._real, self._pace = self.time(), super().time(), 1 / times


class Service:
    """The service in a thread of its own, its agent and its provider in the caller's.

    Arguments:
        folder: where its database is.
    """

    def __init__(self, folder: Path, tracer: Tracer) -> None:
        self._tracer = tracer
        self._upstream = socket.create_server(("127.0.0.1", 0))
        self._upstream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * LARGE_BYTES)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * LARGE_BYTES)
        database = str(folder / "counts.db")
        Database(database).prepare()
        port = self._upstream.getsockname()[1]
        environment = {
            "TRUEZERO_DATABASE_URL": database,
            "TRUEZERO_UPSTREAM_OPENAI": f"http://127.0.0.1:{port}",
        }
        app = Application(load({}, environment), environment)
        app.control_plane()  # made beforehand: nothing of it is to be counted
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                http=HttpProtocol,
                lifespan="on",
                access_log=False,
                log_config=None,
                server_header=False,
                date_header=False,
            )
        )
        self._loop = SlowedLoop()
        self._longer = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Service:
        threading.settrace(self._tracer)  # for the threads that this one starts
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        threading.settrace(None)
        self._loop.call_soon_threadsafe(self._loop.slow, _SLOWED)
        self._agent = socket.create_connection(self._listener.getsockname())
        self._agent.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._provider: socket.socket | None = None
        return self

    def __exit__(self, *_: object) -> None:
        self._agent.close()
        self._server.should_exit = True
        self._loop.call_soon_threadsafe(self._loop.slow, 1)
        self._thread.join(30)
        for each in (self._provider, self._upstream, self._listener):
            if each is not None:
                each.close()

    def _run(self) -> None:
        sys.settrace(self._tracer)
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._server.serve(sockets=[self._listener]))

    def exchange(self, padding: int = 0) -> None:
        """One plain call, whose request is so many bytes longer, and longer than the last or not.

        For no two requests of an agent have one length.
        """
        self._longer = not self._longer
        self._ask(_request(stream=False, padding=padding + self._longer))
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        self._say(head % len(_ANSWER) + _ANSWER, _ANSWER[-16:])

    def stream(self, chunks: int) -> None:
        """One streamed call of so many chunks, and the few that begin and end it."""
        self._ask(_request(stream=True))
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
        self._say(head + b"transfer-encoding: chunked\r\n\r\n", b"\r\n\r\n")
        for number in range(chunks):
            part = _chunk({"content": f"word {number:06}"})
            self._say(part, part)
        last = _chunk({}, finish="stop") + _framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"
        self._say(last, b"0\r\n\r\n")

    def _ask(self, request: bytes) -> None:
        """Send a request that is all there when the service reads it; take it at its provider."""
        with self._stopped():
            self._agent.sendall(request)
            while _unacknowledged(self._agent):
                time.sleep(0.001)
        if self._provider is None:
            self._provider, _ = self._upstream.accept()
            self._provider.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        size = request.partition(b"\r\n\r\n")[2]
        _read(self._provider, size[-16:])

    def _say(self, answer: bytes, end: bytes) -> None:
        """Send a part of the answer, and wait until the agent has it."""
        assert self._provider is not None, "a request came before"
        self._wait_for_turns()
        self._provider.sendall(answer)
        _read(self._agent, end)

    def _wait_for_turns(self) -> None:
        """Return when what came before has been seen to: the call waits for its provider."""
        for _ in range(3):
            turned = threading.Event()
            self._loop.call_soon_threadsafe(turned.set)
            turned.wait()

    @contextlib.contextmanager
    def _stopped(self) -> Iterator[None]:
        """Stop the service's event loop for the duration of the block."""
        stopped, go_on = threading.Event(), threading.Event()

        def stand() -> None:
            stopped.set()
            go_on.wait()

        self._loop.call_soon_threadsafe(stand)
        stopped.wait()
        try:
            yield
        finally:
            go_on.set()


def _unacknowledged(connection: socket.socket) -> int:
    """Bytes sent that are not in the peer's buffer yet."""
    answer = fcntl.ioctl(connection, termios.TIOCOUTQ, struct.pack("i", 0))
    left: int = struct.unpack("i", answer)[0]
    return left


def _read(connection: socket.socket, end: bytes) -> None:
    got = b""
    while not got.endswith(end):
        part = connection.recv(1 << 20)
        if not part:
            raise RuntimeError(f"the connection ended behind {got[-200:]!r}")
        got = got[-len(end) :] + part


def _request(*, stream: bool, padding: int = 0) -> bytes:
    asked = {
        "model": "gpt-5",
        "messages": [{"role": "user", "content": "Is it true?" + "x" * padding}],
    }
    if stream:
        asked |= {"stream": True, "stream_options": {"include_usage": True}}  # type: ignore[dict-item]
    body = json.dumps(asked).encode()
    head = (
        "POST /r/counted/openai/v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        "accept: application/json\r\nauthorization: Bearer sk-counted\r\nuser-agent: counts\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _framed(part: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(part), part)


def _chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    event = {
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000,
        "model": "gpt-5", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }  # fmt: skip
    return _framed(b"data: " + json.dumps(event).encode() + b"\n\n")


def _time_stands_still() -> contextlib.AbstractContextManager[object]:
    """Let the service's clock show one time for the duration of the block."""
    now = epoch_s()
    wall, monotonic = repeat(now).__next__, repeat(0.0).__next__
    return patch.multiple(epoch_s, _wall=wall, _monotonic=monotonic, _ahead=now)


def measure(times: int = 20) -> dict[str, Count]:
    """Count each of what ``main`` prints, so many times."""
    tracer = Tracer()

    def repeated(run: Callable[[], None]) -> Callable[[], None]:
        def runs() -> None:
            for _ in range(times):
                run()

        return runs

    with (
        _time_stands_still(),
        tempfile.TemporaryDirectory() as folder,
        Service(Path(folder), tracer) as service,
    ):
        runs: dict[str, Callable[[], None]] = {
            "exchange": service.exchange,
            "large": lambda: service.exchange(LARGE_BYTES),
            "short": lambda: service.stream(10),
            "long": lambda: service.stream(60),
        }
        for run in runs.values():
            repeated(run)()  # what is made at first use is made
        found = {name: tracer.measure(repeated(run)) for name, run in runs.items()}
    return {
        "a plain exchange": found["exchange"].each(times),
        LARGE: found["large"].each(times),
        "a stream of 10 chunks": found["short"].each(times),
        "a chunk of a stream": found["long"].each(50 * times, found["short"]),
    }


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--times", type=int, default=20, help="how often each is counted")
    parser.add_argument("--modules", action="store_true", help="print each module's share too")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    found = measure(options.times)
    if options.json:
        print(json.dumps({what: [count.opcodes, count.calls] for what, count in found.items()}))
        return
    print(f"{'':34}{'opcodes':>12}{'Python calls':>14}")
    for what, count in found.items():
        print(f"{what:34}{count.opcodes:12,.2f}{count.calls:14,.2f}")
        shares = sorted(count.by_module.items(), key=lambda share: -share[1])
        for name, share in shares if options.modules else ():
            if share:
                print(f"    {name:30}{share:12,.2f}")


if __name__ == "__main__":
    main()

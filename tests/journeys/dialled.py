"""A command that writes down whom it dials: ``python -m tests.journeys.dialled FILE serve …``.

Python's own sockets tell an audit hook, and those that libuv opens are seen where the loop is
asked for them. Each is a line of JSON: what was called, and the address or the name.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import uvloop

from tests import forked

# Audit events by the place of the address, or of the name, among their arguments.
EVENTS = {
    "socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1, "socket.getaddrinfo": 0,
    "socket.gethostbyname": 0, "socket.gethostbyaddr": 0, "socket.getnameinfo": 0,
}  # fmt: skip
# Of the loop, those that libuv does: a connection, a datagram, a name.
OF_THE_LOOP = ("create_connection", "create_datagram_endpoint", "sock_connect", "getaddrinfo")


def record(file: Path) -> None:
    """Write down, from now on and in all threads, whom this process dials or looks up."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(what: str, whom: object) -> None:
        if whom is not None:
            os.write(descriptor, json.dumps([what, whom], default=str).encode() + b"\n")

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        at = EVENTS.get(event)
        if at is not None:
            note(event, arguments[at])

    sys.addaudithook(heard)
    for name in OF_THE_LOOP:
        setattr(uvloop.Loop, name, _noting(getattr(uvloop.Loop, name), name, note))


def _noting(call: Any, name: str, note: Callable[[str, object], None]) -> Any:
    @wraps(call)
    def noted(self: Any, *given: Any, **named: Any) -> Any:
        if name == "create_connection":  # of a socket that is connected already: seen before
            host, port = [*given[1:], None, None][:2]
            whom = host or named.get("host"), port or named.get("port")
            note(name, whom if whom[0] else None)
        elif name == "create_datagram_endpoint":
            note(name, named.get("remote_addr") or [*given, None, None, None][2])
        elif name == "sock_connect":
            note(name, given[1])
        else:
            note(name, given[0])
        return call(self, *given, **named)

    return noted


def dialled(file: Path) -> list[tuple[str, Any]]:
    """What was written down: what was called, and with which address or name."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return [tuple(json.loads(line)) for line in lines]


if __name__ == "__main__":
    record(Path(sys.argv[1]))
    sys.argv = ["truezero", *sys.argv[2:]]
    runpy.run_path(str(forked.ROOT / "truezero" / "__main__.py"), run_name="__main__")

"""Shutdown of a server process; tests/journeys/test_durability.py sends the signals for real."""
# ruff: noqa: SLF001
# Private: the loop and the signal of a server that is not run.

from __future__ import annotations

import asyncio
import signal
import threading

import pytest
import uvicorn

from proxy.server import serve
from proxy.server.serve import SingleProcess, Worker


@pytest.fixture
def leaving(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """An event of this test's, in place of the one of the process."""
    event = threading.Event()
    monkeypatch.setattr(serve, "LEAVING", event)
    return event


async def _call() -> None:
    await asyncio.Event().wait()


async def _never(_scope: object, _receive: object, _send: object) -> None:
    raise AssertionError("nothing is served")


async def test_the_first_signal_lets_calls_finish_and_the_second_cancels_them(
    leaving: threading.Event,
) -> None:
    server = SingleProcess(uvicorn.Config(_never, log_config=None))
    server._loop = asyncio.get_running_loop()
    call = asyncio.create_task(_call())
    server.server_state.tasks.add(call)
    server.handle_exit(signal.SIGTERM, None)
    await asyncio.sleep(0)
    assert server.should_exit
    assert leaving.is_set()
    assert not call.cancelling()
    server.handle_exit(signal.SIGTERM, None)
    with pytest.raises(asyncio.CancelledError):
        await call


@pytest.mark.parametrize("before", [signal.SIG_DFL, signal.SIG_IGN])
async def test_a_hangup_is_handled_while_serving_unless_it_is_ignored(
    before: signal.Handlers, leaving: threading.Event
) -> None:
    """`nohup` has it ignored: the terminal may go."""
    standing = signal.signal(signal.SIGHUP, before)
    try:
        server = SingleProcess(uvicorn.Config(_never, log_config=None))
        with server.capture_signals():
            if before is signal.SIG_IGN:
                assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            else:
                signal.raise_signal(signal.SIGHUP)
        assert leaving.is_set() == server.should_exit == (before is signal.SIG_DFL)
        assert signal.getsignal(signal.SIGHUP) is before
    finally:
        signal.signal(signal.SIGHUP, standing)


async def test_in_a_worker_the_supervisor_alone_has_calls_cancelled(
    leaving: threading.Event,
) -> None:
    server = Worker(uvicorn.Config(_never, log_config=None), []).server
    assert isinstance(server, SingleProcess)
    server._loop = asyncio.get_running_loop()
    call = asyncio.create_task(_call())
    server.server_state.tasks.add(call)
    for sig in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGTERM):
        server.handle_exit(sig, None)
    await asyncio.sleep(0)
    assert server.should_exit
    assert leaving.is_set()
    assert not call.cancelling()
    server.handle_exit(serve._CANCEL, None)
    with pytest.raises(asyncio.CancelledError):
        await call


def test_a_worker_serves_with_the_same_shutdown() -> None:
    worker = Worker(uvicorn.Config(_never, log_config=None), [])
    try:
        assert isinstance(worker.server, SingleProcess)
        assert worker.server is worker.server
    finally:
        worker.parent_conn.close()
        worker.child_conn.close()

"""Server processes and their shutdown: calls may finish, a second signal cancels them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing import connection, parent_process
from types import FrameType

import uvicorn
from uvicorn.supervisors import multiprocess as uvicorn_supervisor
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from proxy.server.startup import tune_process

# Set by the first signal; ends streams that would never end by themselves.
LEAVING = threading.Event()


class SingleProcess(uvicorn.Server):
    """uvicorn's server with a graceful shutdown.

    On the first signal (SIGTERM, SIGINT or SIGHUP), calls in flight may finish within the grace
    period, and the process exits with code 0. A second one cancels them; they are still recorded.
    """

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal arrives."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while serving: uvicorn's two, and SIGHUP unless `nohup` has it ignored."""
        main = threading.current_thread() is threading.main_thread()
        with super().capture_signals(), contextlib.ExitStack() as restored:
            for sig in self._further() if main else ():
                if signal.getsignal(sig) is not signal.SIG_IGN:
                    restored.callback(signal.signal, sig, signal.signal(sig, self.handle_exit))
            yield

    def _further(self) -> tuple[signal.Signals, ...]:
        return (signal.SIGHUP,)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal; uvicorn would raise it again on exit, and skip cleanup on a second."""
        if self.should_exit:
            self._cancel()
        self._drain()

    def _drain(self) -> None:
        LEAVING.set()
        self.should_exit = True

    def _cancel(self) -> None:
        self._loop.call_soon_threadsafe(self._cancel_calls)

    def _cancel_calls(self) -> None:
        for task in self.server_state.tasks:
            task.cancel()


_CANCEL = signal.SIGUSR1  # from the supervisor: it has had a second signal


class _WorkerServer(SingleProcess):
    """The same in a worker, where the supervisor alone says that calls are to be cancelled.

    A terminal and systemd signal all processes of the service, so a worker receives most signals
    twice: from them and from its supervisor.
    """

    def _further(self) -> tuple[signal.Signals, ...]:
        return (signal.SIGHUP, _CANCEL)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if sig == _CANCEL:
            self._cancel()
        self._drain()


class Worker(Process):
    """A uvicorn worker with the same shutdown, which also stops when its parent dies."""

    @property
    def server(self) -> uvicorn.Server:
        """The server in the worker's process."""
        if self._server is None:
            self._server = _WorkerServer(config=self.config)
        return self._server

    def target(self, sockets: list[socket.socket] | None = None) -> None:
        """Run in the worker's process."""
        tune_process()
        threading.Thread(target=_end_with_parent, daemon=True).start()
        super().target(sockets)


uvicorn_supervisor.Process = Worker  # type: ignore[misc]  # uvicorn starts workers in three places, by this name


class WorkerProcesses(Multiprocess):
    """uvicorn's supervisor of workers; at its second signal it has them cancel their calls.

    Arguments:
        beside: supervisors of further workers, with sockets of their own; they live as long.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        sockets: list[socket.socket],
        *,
        beside: Sequence[Multiprocess] = (),
    ) -> None:
        super().__init__(config, sockets)  # takes the signals, from those beside too
        self._beside = beside
        for other in beside:
            other.should_exit = self.should_exit

    def init_processes(self) -> None:
        """Start all workers."""
        super().init_processes()
        for other in self._beside:
            other.init_processes()

    def keep_subprocess_alive(self) -> None:
        """Replace workers that died or hang."""
        super().keep_subprocess_alive()
        for other in self._beside:
            other.keep_subprocess_alive()

    def handle_hup(self) -> None:
        """Stop as on SIGTERM; uvicorn would replace the workers."""
        self.handle_term()

    def terminate_all(self) -> None:
        """Tell all workers to stop."""
        super().terminate_all()
        for other in self._beside:
            other.terminate_all()

    def join_all(self) -> None:
        """Wait until the workers have stopped; a further signal cancels their calls."""
        while any(worker.process.is_alive() for worker in self._all()):
            if self.signal_queue:
                self.signal_queue.clear()
                self._cancel_all()
            time.sleep(0.05)
        for worker in self._all():
            worker.join()

    def _all(self) -> list[Process]:
        return [worker for group in (self, *self._beside) for worker in group.processes]

    def _cancel_all(self) -> None:
        for worker in self._all():
            if worker.pid is not None and worker.process.is_alive():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.pid, _CANCEL)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

"""The server's processes and how they end: calls may finish, a second signal cuts them.

It serves nothing itself, and leaves no worker behind whose parent is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
import time
from multiprocessing import connection, parent_process
from types import FrameType

import uvicorn
from uvicorn.supervisors import multiprocess
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from proxy.server.startup import tune_process

# Set by the first signal: streams that have no end of their own end then.
LEAVING = threading.Event()


class SingleProcess(uvicorn.Server):
    """uvicorn's server, but for its end.

    The first signal lets calls in flight end within the grace, and the process then ends with
    exit code 0. A second one cancels them, and what they were is still recorded.
    """

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to stop."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal; uvicorn would raise it again at its end, and skip the end at a second."""
        if self.should_exit:
            self._loop.call_soon_threadsafe(self._cut)
        LEAVING.set()
        self.should_exit = True

    def _cut(self) -> None:
        for task in self.server_state.tasks:
            task.cancel()


class Worker(Process):
    """A worker of uvicorn's that ends as above, and when its parent is gone."""

    @property
    def server(self) -> uvicorn.Server:
        """What serves in the worker's process."""
        if self._server is None:
            self._server = SingleProcess(config=self.config)
        return self._server

    def target(self, sockets: list[socket.socket] | None = None) -> None:
        """Run in the worker's process."""
        tune_process()
        threading.Thread(target=_end_with_parent, daemon=True).start()
        super().target(sockets)


multiprocess.Process = Worker  # type: ignore[misc]  # started in three places, by this name


class WorkerProcesses(Multiprocess):
    """uvicorn's workers and their parent: a second signal reaches them too."""

    def join_all(self) -> None:
        """Wait until the workers have ended, and hand further signals on to them."""
        while any(worker.process.is_alive() for worker in self.processes):
            if self.signal_queue:
                self.signal_queue.clear()
                self._signal_all()
            time.sleep(0.05)
        super().join_all()

    def _signal_all(self) -> None:
        for worker in self.processes:
            if worker.pid is not None and worker.process.is_alive():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGTERM)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

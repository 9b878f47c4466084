"""The folder in which the processes of a service share their metrics."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, MutableMapping

from proxy.features.metrics import multiprocess
from proxy.features.metrics.multiprocess import SHARED
from proxy.serving import ServingPart


@contextlib.contextmanager
def shared_metrics(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Set up an empty folder in which worker processes share their metrics."""
    with multiprocess.folder() as folder:
        environment[SHARED] = str(folder)
        try:
            yield
        finally:
            del environment[SHARED]


SERVING = ServingPart(processes=shared_metrics)

"""httpx for tests: one certificate store for all clients, and patience with a busy machine.

A store of its own, which httpx makes for each client, costs 20 ms of CPU.
"""

from __future__ import annotations

import ssl
from functools import partial

import httpx

PATIENCE_S = 300.0
# Of an agent that leaves when nothing has come for so long.
LEAVES = httpx.Timeout(PATIENCE_S, read=1.0)

_TLS = ssl.create_default_context()

Client = partial(httpx.Client, verify=_TLS, timeout=PATIENCE_S)
get = partial(httpx.get, verify=_TLS, timeout=PATIENCE_S)
post = partial(httpx.post, verify=_TLS, timeout=PATIENCE_S)
put = partial(httpx.put, verify=_TLS, timeout=PATIENCE_S)
request = partial(httpx.request, verify=_TLS, timeout=PATIENCE_S)
stream = partial(httpx.stream, verify=_TLS, timeout=PATIENCE_S)

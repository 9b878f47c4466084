"""The server's side of an agent's connection, which lends its transport to the application.

It changes nothing of how uvicorn serves: a drill alone takes what is lent, to reset it.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class LendingProtocol(HttpToolsProtocol):
    """uvicorn's own protocol; each request's ``scope["state"]["transport"]`` is its connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}

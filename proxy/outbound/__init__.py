"""The provider's side: HTTP/1.1 client, WebSockets, credentials."""

from __future__ import annotations

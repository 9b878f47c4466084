"""Types of the ASGI interface (asgi.readthedocs.io/en/latest/specs/www.html)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Pairs = list[tuple[bytes, bytes]]
Application = Callable[[Scope, Any, Any], Awaitable[None]]

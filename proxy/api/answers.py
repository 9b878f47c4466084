"""JSON answers, serialized beside the event loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response

from proxy.control.queries import run_in_thread


async def json_answer(payload: Mapping[str, Any]) -> Response:
    """Serialize in a thread: a list of thousands would delay agents' bytes."""
    content = await run_in_thread(orjson.dumps, payload)
    return Response(content, media_type="application/json")

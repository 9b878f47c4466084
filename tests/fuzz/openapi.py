"""What holds for every route of the OpenAPI: no 500, and every answer is as it is described.

It asks a whole service on a socket, with the admin token and without.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import schemathesis
from hypothesis import given
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from tests.proxy.api.test_routes import PATIENCE_S, Service, serving

TOKEN: Final = "the-admin-token"
_ENDLESS: Final = "/events"
_OPEN: Final = ("/healthz", "/readyz")
_CHECKS: Final = [
    not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
    checks.response_headers_conformance, checks.response_schema_conformance,
]  # fmt: skip

Round = Callable[[], None]
Dress = Callable[[Any], Any]


@contextmanager
def routes(dress: Dress, *, shown: bool = True) -> Iterator[dict[str, Round]]:
    """A round for each operation, by its name; ``shown``: whether the admin token is."""
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), ADMIN_TOKEN=TOKEN, REGISTRATIONS_PER_S="0") as service,
    ):
        schema = _schema(service)
        headers = {"authorization": f"Bearer {TOKEN}"} if shown else {}
        yield {
            operation.label: dress(given(case=operation.as_strategy())(_held(headers, shown)))
            for operation in (found.ok() for found in schema.get_all_operations())
            if not operation.path.endswith(_ENDLESS)
        }


def _schema(service: Service) -> Any:
    raw = service.http.get("/openapi.json", headers={"authorization": f"Bearer {TOKEN}"})
    schema = schemathesis.openapi.from_dict(raw.json())
    schema.config.update(base_url=str(service.http.base_url))
    return schema


def _held(headers: dict[str, str], shown: bool) -> Callable[[Any], None]:
    def holds(case: Any) -> None:
        answer = case.call(headers=headers, timeout=PATIENCE_S)
        case.validate_response(answer, checks=_CHECKS)
        if not shown and case.operation.path not in _OPEN:
            assert answer.status_code in (401, 404), answer.status_code

    return holds

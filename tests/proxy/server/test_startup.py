"""A start: few modules are loaded, and garbage is collected only while serving."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.proxy.api.test_routes import serving

# What the first calls of agents need none of; each was a part of what a start took.
UNNEEDED = {
    "alembic", "botocore", "fastapi", "genai_prices", "httpx", "jinja2", "opentelemetry.sdk",
    "proxy.control.rollouts", "proxy.web", "psycopg", "pygments", "rich",
    "sqlalchemy.dialects.postgresql", "starlette", "structlog", "truezero.sdk._sync.client",
    "truezero.models",
}  # fmt: skip

STARTED = """
import json, os, sys
import truezero.cli
from proxy.server.background import tune_process
tune_process()
from proxy.server import serve
os.environ["TRUEZERO_DATABASE_URL"] = sys.argv[1]
settings = serve.load({}, os.environ)
serve._prepare(settings)
serve.create()
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.slow
def test_a_start_loads_nothing_that_agents_do_without(tmp_path: Path) -> None:
    told = subprocess.check_output([sys.executable, "-c", STARTED, str(tmp_path / "t.db")])
    loaded = set(json.loads(told))
    assert {"proxy.relay.call", "sqlalchemy"} <= loaded
    assert loaded & UNNEEDED == set()


@pytest.mark.slow
def test_garbage_is_looked_for_once_the_service_has_started(tmp_path: Path) -> None:
    gc.disable()
    try:
        with serving(tmp_path) as service:
            assert service.call().status_code == 200
            assert gc.isenabled()
            assert gc.get_freeze_count() > 0
    finally:
        gc.enable()
        gc.unfreeze()

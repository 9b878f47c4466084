"""The description of the API as the service answers with it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from proxy.app import Application
from proxy.features.openapi import plane
from proxy.settings import load
from proxy.store.database import Database
from tests.proxy.api.test_routes import Service
from tests.proxy.web.test_pages import BROWSER, guarded, sign_in

__all__ = ["guarded"]


async def test_the_service_describes_itself_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = str(tmp_path / "t.db")
    Database(database).prepare()
    app = Application(load({"database_url": database}, {}), {}).control_plane().app
    loop, threads = threading.get_ident(), list[int]()

    def describing(_app: FastAPI) -> dict[str, Any]:
        threads.append(threading.get_ident())
        return {"paths": {"/rollouts": {}}}

    monkeypatch.setattr(plane, "document_of", describing)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as http:
        answer = await http.get("/openapi.json")
    assert answer.json() == {"paths": {"/rollouts": {}}}
    assert len(threads) == 1
    assert loop not in threads


@pytest.mark.slow
def test_signing_in_opens_it(guarded: Service) -> None:
    sign_in(guarded)
    assert guarded.http.get("/openapi.json", headers=BROWSER).status_code == 200

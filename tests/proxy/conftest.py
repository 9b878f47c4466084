"""Services that the tests of a module share, each empty for each test; and an empty database."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proxy.control.queries import Service as ControlService
from proxy.store.database import Database
from tests import postgres

if TYPE_CHECKING:
    from tests.proxy.api.test_routes import Service


@dataclass
class Services:
    """One running service for each set of settings that tests of a module ask for.

    A start takes 50 ms of CPU; emptying takes a tenth of it.
    """

    folder: Path
    ends: contextlib.ExitStack
    running: dict[tuple[object, ...], Service] = field(default_factory=dict)

    def __call__(
        self,
        *,
        server: postgres.Server | None = None,
        upstreams: tuple[str, ...] = ("OPENAI",),
        **settings: str,
    ) -> Service:
        """One with these settings, empty; on a file, or on a database of this server."""
        from tests.proxy.api.test_routes import (
            serving,  # here: most tests beside it need no service
        )

        key = (server is None, upstreams, *sorted(settings.items()))
        if key in self.running:
            self.running[key] = self.running[key].anew()
            return self.running[key]
        folder = self.folder / str(len(self.running))
        folder.mkdir()
        if server is not None:
            settings["DATABASE_URL"] = self.ends.enter_context(server.database())
        self.running[key] = self.ends.enter_context(
            serving(folder, upstreams=upstreams, **settings)
        )
        return self.running[key]


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """Hands out services on SQLite."""
    with contextlib.ExitStack() as ends:
        yield Services(tmp_path_factory.mktemp("services"), ends)


@pytest.fixture
def control(service: Service) -> ControlService:
    """The context of the control plane of the test's running service."""
    assert service.app is not None
    return service.app.control_plane().service


@pytest.fixture(params=["sqlite", "postgresql"])
def on_both(request: pytest.FixtureRequest, services: Services) -> Callable[..., Service]:
    """Hands out services, on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return services
    return partial(services, server=request.getfixturevalue("postgres_server"))


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    """One without settings of its own."""
    return on_both()


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file that nobody has written to: a copy takes a third of what making one does."""
    file = tmp_path_factory.mktemp("prepared") / "t.db"
    with contextlib.closing(Database(str(file))) as made:
        made.prepare()
    return file


@pytest.fixture
def database(prepared: Path, tmp_path: Path) -> Iterator[Database]:
    """An empty SQLite file in the test's folder."""
    file = shutil.copyfile(prepared, tmp_path / "t.db")
    with contextlib.closing(Database(str(file))) as opened:
        yield opened


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with a row of every shape; whoever writes to it takes a copy."""
    from tests.proxy.filled import fill

    file = tmp_path_factory.mktemp("filled") / "filled.db"
    fill(str(file)).close()
    return file

"""The store's exceptions: callers catch these, never SQLAlchemy's or a driver's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError

_ROW_FAULTS = (DataError, IntegrityError, ProgrammingError)


class StoreError(Exception):
    """The database did not do what it was asked; the message is one line."""

    @property
    def kind(self) -> str:
        """The class name of the driver's error, for logs and REST errors."""
        cause = self.__cause__
        return type(cause if cause is not None else self).__name__


class DatabaseUnavailable(StoreError):
    """The database cannot be used now: locked, full, read-only or away. A retry may succeed."""


class RowRejected(StoreError):
    """No database takes this row, now or later; nothing was written."""


class UnusableDatabase(StoreError):
    """A database that this version cannot use.

    A later one wrote it, its encoding is not UTF8, or an earlier one did not finish a copy into it.
    """


class BadUrl(StoreError):
    """A database URL cannot be used; the message says why."""


def refuse_missing(file: Path) -> NoReturn:
    """Raise ``UnusableDatabase`` for a command that needs the database of a service."""
    raise UnusableDatabase(
        f"no database at {file} (in {file.absolute().parent}): run the command in the service's "
        "folder, or name its database by --database"
    )


def refuse_foreign(name: str) -> NoReturn:
    """Raise ``UnusableDatabase`` for a database without truezero's tables."""
    raise UnusableDatabase(f"{name} is not a truezero database; --database names another")


def refuse_encoding(encoding: str) -> NoReturn:
    """Raise ``UnusableDatabase`` for a PostgreSQL database that does not hold every text."""
    raise UnusableDatabase(
        f"the database has the encoding {encoding}, which cannot hold every name and message: "
        "create one with UTF8 (createdb --encoding=UTF8 --template=template0 NAME)"
    )


def reason(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def as_store_error(error: DBAPIError) -> StoreError:
    """Translate an error of an engine's; raise the result ``from`` it."""
    kind = RowRejected if isinstance(error, _ROW_FAULTS) else DatabaseUnavailable
    return kind(reason(error.orig or error))


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raise errors of SQLAlchemy's as `StoreError`."""
    try:
        yield
    except DBAPIError as error:
        raise as_store_error(error) from error

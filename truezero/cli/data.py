"""Commands on the service's data: what they say, and errors of files and databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from truezero.cli.options import fail
from truezero.printable import visible


class DataError(Exception):
    """The operation failed; the message says why in one sentence."""


def say(sentence: str) -> None:
    """Print a sentence on standard error."""
    click.echo(f"truezero: {visible(sentence)}", err=True)


@contextmanager
def data_errors() -> Iterator[None]:
    """Print a ``DataError`` and exit with 1."""
    try:
        yield
    except DataError as error:
        fail(str(error), 1)


@contextmanager
def readable_errors() -> Iterator[None]:
    """Raise errors of files and databases as a ``DataError`` with one sentence."""
    from sqlite3 import Error as SqliteError  # noqa: PLC0415

    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415

    from proxy.store.errors import BadUrl, StoreError, UnusableDatabase  # noqa: PLC0415

    try:
        yield
    except BadUrl as error:
        raise DataError(f"invalid database URL: {error}") from None
    except UnusableDatabase as error:
        raise DataError(str(error)) from None
    except StoreError as error:
        raise DataError(f"the database: {error}") from None
    except DBAPIError as error:
        raise DataError(f"the database: {str(error.orig).splitlines()[0]}") from None
    except SqliteError as error:
        raise DataError(f"the database: {error}") from None
    except BrokenPipeError:
        raise DataError("the reader of the output is gone") from None
    except OSError as error:
        raise DataError(f"{error.filename}: {error.strerror}") from None

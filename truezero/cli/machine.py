"""What a bug report needs to know of this machine: names and versions, never a setting's value."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

from truezero.cli import version
from truezero.printable import plural

_PACKAGES = (
    "fastapi", "httptools", "httpx", "orjson", "psycopg", "pydantic", "sqlalchemy", "starlette",
    "uvicorn", "uvloop", "websockets",
)  # fmt: skip
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_USER_INFO = re.compile(r"(?<=://)[^/\s@]*@")


def machine_facts(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Return what is told of this machine, by name."""
    yield "release", version.line()
    yield "python", f"{platform.python_implementation()} {platform.python_version()}"
    yield "system", f"{_system()}, {plural(os.cpu_count() or 1, 'core')}"
    yield "packages", ", ".join(_versions()) or "the service's are not installed"
    ours = {name for name, value in environment.items() if name.startswith("TRUEZERO_") and value}
    proxies = {name for name in environment if name.upper() in _PROXIES and environment[name]}
    yield "variables", ", ".join(sorted(ours | proxies)) or "none of truezero's are set"
    file = Path(environment.get("TRUEZERO_CONFIG") or "truezero.toml")
    yield "settings file", "present" if file.is_file() else "none"


def without_credentials(text: str) -> str:
    """Return a text without the user and password of any URL in it."""
    return _USER_INFO.sub("", text)


def _system() -> str:
    library = " ".join(platform.libc_ver()).strip()
    return f"{platform.system()} {platform.release()} {platform.machine()} {library}".rstrip()


def _versions() -> Iterator[str]:
    for name in _PACKAGES:
        try:
            yield f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue

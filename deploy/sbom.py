"""``make sbom``: what the image installs, as a CycloneDX bill of materials, from the lock alone.

It looks nothing up, and says the same for the same lock.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*])?==(?P<version>[^\s;\\]+)")
_VIA = re.compile(r"\s+#\s+(?:via\s+)?(?P<name>[A-Za-z0-9._-]+)")
_HASH = re.compile(r"--hash=sha256:(?P<digest>[0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One pinned package: the SHA-256 of each file it may be installed from, and who needs it."""

    name: str
    version: str
    digests: list[str] = field(default_factory=list)
    needed_by: list[str] = field(default_factory=list)

    @property
    def purl(self) -> str:
        """Its package URL (github.com/package-url/purl-spec)."""
        return f"pkg:pypi/{self.name.lower().replace('_', '-')}@{self.version}"


def pins(lock: str) -> Iterator[Pin]:
    """Read a lock as uv and pip-tools write it."""
    pin: Pin | None = None
    for line in lock.splitlines():
        if found := _PIN.match(line):
            if pin is not None:
                yield pin
            pin = Pin(name=found["name"], version=found["version"])
        elif pin is not None:
            pin.digests.extend(found["digest"] for found in _HASH.finditer(line))
            pin.needed_by.extend(found["name"] for found in _VIA.finditer(line))
    if pin is not None:
        yield pin


def bill(lock: str, *, name: str, version: str) -> dict[str, Any]:
    """The bill of materials (cyclonedx.org/docs/1.6/json) of a project and its lock."""
    own = f"pkg:pypi/{name}@{version}"
    pinned = list(pins(lock))
    needs: dict[str, list[str]] = {own: [], **{pin.purl: [] for pin in pinned}}
    by_name = {name: own} | {pin.name: pin.purl for pin in pinned}
    for pin in pinned:
        for needer in pin.needed_by:
            needs[by_name.get(needer, own)].append(pin.purl)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _component("application", name, version, own)},
        "components": [_library(pin) for pin in pinned],
        "dependencies": [{"ref": ref, "dependsOn": sorted(set(on))} for ref, on in needs.items()],
    }


def _library(pin: Pin) -> dict[str, Any]:
    files = {
        "type": "distribution",
        "url": pin.purl,
        "hashes": [{"alg": "SHA-256", "content": digest} for digest in pin.digests],
    }
    library = _component("library", pin.name, pin.version, pin.purl)
    return {**library, "externalReferences": [files]}


def _component(kind: str, name: str, version: str, purl: str) -> dict[str, Any]:
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}


def main() -> None:
    """Print the bill of a project's folder, the current one by default."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    lock = (folder / "requirements.lock").read_text()
    told = bill(lock, name=project["name"], version=project["version"])
    print(json.dumps(told, indent=1))  # noqa: T201


if __name__ == "__main__":
    main()

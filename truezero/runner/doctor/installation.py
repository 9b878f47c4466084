"""Whether the package `proxy` on this machine is truezero's."""

from __future__ import annotations

from importlib import metadata, util
from pathlib import Path

from truezero.runner.doctor.checks import DoctorCheck

# What a package called `proxy` must have to be ours.
_SERVICE_PARTS = ("relay/call.py", "capture/observer.py")


def installed() -> DoctorCheck:
    """Check that the package `proxy` is truezero's: PyPI has another of that name."""
    spec = util.find_spec("proxy")
    origin = Path(spec.origin) if spec is not None and spec.origin else None
    if origin is None:
        return DoctorCheck(
            name="package", health="failed",
            told="the package `proxy` cannot be imported: pip install 'truezero[server]'",
        )  # fmt: skip
    others = [name for name in owners("proxy") if name != "truezero"]
    ours = all((origin.parent / part).is_file() for part in _SERVICE_PARTS)
    if ours and not others:
        return DoctorCheck(
            name="package", health="ok", told=f"`proxy` is truezero's, at {origin.parent}"
        )
    by = f"also belongs to {' and '.join(others)}" if others else "is not truezero's"
    fix = f"pip uninstall {others[0]}, then reinstall truezero" if others else "remove or rename it"
    return DoctorCheck(name="package", health="failed", told=f"`proxy` at {origin} {by}: {fix}")


def owners(package: str) -> list[str]:
    """Return the installed distributions that provide an import package of this name."""
    return sorted(set(metadata.packages_distributions().get(package, ())))

"""Whether the variables that agents read point at the service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import httpx

from truezero import models
from truezero.runner.doctor.checks import DoctorCheck


def base_urls(
    environment: Mapping[str, str], service: str, http: httpx.Client
) -> Iterator[DoctorCheck]:
    """Check that the variables that agents read point at the service."""
    names = [name for name in environment if name.endswith(("_BASE_URL", "_API_BASE"))]
    given = sorted(name for name in names if environment[name])
    if not given:
        detail = "no base URL variable is set; `truezero run` sets them"
        yield DoctorCheck(name="base URLs", health="skipped", told=detail)
    for name in given:
        yield _base_url(name, environment[name], service, http)


def _base_url(name: str, url: str, service: str, http: httpx.Client) -> DoctorCheck:
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    try:
        answer = http.get(f"{origin}/healthz")
        models.Alive.model_validate(answer.json())
    except httpx.HTTPError as error:
        detail = f"cannot reach {origin} ({type(error).__name__})"
        return DoctorCheck(name=name, health="failed", told=detail)
    except ValueError:
        detail = f"{origin} is not a truezero service: calls bypass the proxy and are not recorded"
        return DoctorCheck(name=name, health="failed", told=detail)
    other = "" if origin == service else f" (not {service})"
    return DoctorCheck(name=name, health="ok", told=f"points at the service at {origin}{other}")

"""The check of traces before the service starts: whether the extra that they need is installed."""

from __future__ import annotations

from proxy.feature import settings_of
from proxy.features.traces import exporter
from proxy.features.traces.settings import TraceSettings
from proxy.serving import ServingPart, StartError


def check(settings: object) -> None:
    """Check that spans can be made if a collector is set.

    Raises:
        StartError: the extra `otel` is not installed.
    """
    if settings_of(settings, TraceSettings).otlp_endpoint is None:
        return
    try:
        exporter.check()
    except exporter.MissingError as error:
        raise StartError(str(error)) from None


SERVING = ServingPart(check=check)

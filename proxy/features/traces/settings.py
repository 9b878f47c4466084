"""The collector that spans are sent to."""

from __future__ import annotations

from pydantic import BaseModel, Field


class TraceSettings(BaseModel):
    """The collector of spans; without one, none are made."""

    otlp_endpoint: str | None = Field(
        None,
        pattern=r"^https?://[^/\s]+(/[^\s?#]*)?$",
        description="OpenTelemetry collector for spans (OTLP over HTTP); requires the extra `otel`",
    )


SETTINGS = TraceSettings

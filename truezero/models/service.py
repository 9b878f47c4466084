"""Models of the service's own state: health checks and errors."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Alive(BaseModel):
    """`GET /healthz`: the process is up."""

    status: Literal["ok"]
    version: str


class Ready(BaseModel):
    """`GET /readyz`: 503 while the database or the recorder is unavailable."""

    status: Literal["ready", "not_ready"]
    database: bool
    recorder: bool
    gaps: int = Field(description="calls served but not recorded since start")
    waiting: int = Field(description="exchanges not yet written")


class Problem(BaseModel):
    """Problem JSON (RFC 9457); `code` is for programs, `detail` for people."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str

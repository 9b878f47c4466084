"""The files of the certificate that agents are shown."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, Field, field_validator, model_validator

_NONE = "none"


class TlsSettings(BaseModel):
    """The files of the certificate that the service shows; both, or it speaks plain HTTP."""

    certfile: str | None = Field(
        None,
        min_length=1,
        description="PEM file of a certificate and its chain: both ports then speak TLS only; "
        "`none` overrides a `truezero.toml`",
    )
    keyfile: str | None = Field(
        None, min_length=1, description="PEM file of the certificate's private key, not encrypted"
    )

    @field_validator("certfile", "keyfile")
    @classmethod
    def _file(cls, named: str | None) -> str | None:
        return None if named == _NONE else named

    @model_validator(mode="after")
    def _pair(self) -> Self:
        if self.certfile is not None and self.keyfile is None:
            raise ValueError("certfile: requires keyfile")
        if self.keyfile is not None and self.certfile is None:
            raise ValueError("keyfile: requires certfile")
        return self


SETTINGS = TlsSettings

"""The webhook that alerts are posted to."""

from __future__ import annotations

import base64
import re
from typing import Self

from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator

_URL = re.compile(r"https?://[^/\s]+(/\S*)?")
_PREFIX = "whsec_"
_KEY_BYTES = range(24, 65)  # https://www.standardwebhooks.com, version 1.0.0


class WebhookSettings(BaseModel):
    """The webhook for alerts and its signing key. Both may hold a secret, so neither is shown."""

    webhook_url: SecretStr | None = Field(
        None,
        description="URL that alerts are posted to: a breaker opened, a limit is spent, a batch "
        "cannot be published, an upstream fails; requires `webhook_secret`",
    )
    webhook_secret: SecretStr | None = Field(
        None,
        description="key that signs the webhook's requests: `whsec_` and 24 to 64 random bytes in "
        "base64",
    )

    @field_validator("webhook_url")
    @classmethod
    def _is_url(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not _URL.fullmatch(url.get_secret_value()):
            raise ValueError("not an http or https URL")
        return url

    @field_validator("webhook_secret")
    @classmethod
    def _is_key(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None:
            key_of(secret.get_secret_value())
        return secret

    @model_validator(mode="after")
    def _signed(self) -> Self:
        if self.webhook_url is not None and self.webhook_secret is None:
            raise ValueError("webhook_url: requires webhook_secret")
        return self


def key_of(secret: str) -> bytes:
    """Return the key that a webhook's secret encodes.

    Raises:
        ValueError: it is not `whsec_` and 24 to 64 bytes in base64.
    """
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not secret.startswith(_PREFIX) or len(key) not in _KEY_BYTES:
        raise ValueError("must be `whsec_` and 24 to 64 bytes in base64")
    return key


SETTINGS = WebhookSettings

"""A webhook has a URL and a key that signs, and neither is shown."""

from __future__ import annotations

import base64

import pytest

from proxy.features.alerts.settings import WebhookSettings, key_of
from proxy.settings import SettingsError, load

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
URL = "https://hooks.example/T0/secret-path?x=1"


def test_a_secret_encodes_its_key() -> None:
    assert key_of(SECRET) == KEY
    for wrong in (
        SECRET.removeprefix("whsec_"), "whsec_", "whsec_short", "whsec_" + "é" * 40,
        "whsec_" + base64.b64encode(bytes(23)).decode(),
        "whsec_" + base64.b64encode(bytes(65)).decode(),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="24 to 64 bytes in base64"):
            key_of(wrong)


def test_a_webhook_is_signed_or_not_at_all() -> None:
    settings = load({}, {"TRUEZERO_WEBHOOK_URL": URL, "TRUEZERO_WEBHOOK_SECRET": SECRET})
    assert isinstance(settings, WebhookSettings)
    assert settings.webhook_url is not None
    assert settings.webhook_url.get_secret_value() == URL
    assert "secret-path" not in repr(settings)
    assert SECRET not in repr(settings)
    for environment, message in (
        ({"TRUEZERO_WEBHOOK_URL": URL}, "webhook_url: requires webhook_secret"),
        ({"TRUEZERO_WEBHOOK_URL": "ftp://x", "TRUEZERO_WEBHOOK_SECRET": SECRET}, "http or https"),
        ({"TRUEZERO_WEBHOOK_SECRET": "hunter2"}, "TRUEZERO_WEBHOOK_SECRET: must be `whsec_`"),
    ):
        with pytest.raises(SettingsError, match=message) as refused:
            load({}, environment)
        assert "hunter2" not in str(refused.value)

"""The work of alerts in a process: to look, and to post what is new."""

from __future__ import annotations

import time

from proxy.features.alerts.settings import WebhookSettings, key_of
from proxy.features.alerts.store import Alerts
from proxy.features.alerts.webhook import Webhook
from proxy.parts import NOTHING, Parts, Started


def start(parts: Parts) -> Started:
    """Look for conditions if a webhook is set, in the process that serves the control plane."""
    settings = parts.settings_of(WebhookSettings)
    url, secret = settings.webhook_url, settings.webhook_secret
    if url is None or secret is None or parts.agents_only:
        return NOTHING

    webhook = Webhook(
        Alerts(parts.database.connections),
        parts.database.deployment,
        look=parts.conditions,
        url=url.get_secret_value(),
        key=key_of(secret.get_secret_value()),
        wall=time.time,
    )
    return Started(run=webhook.run)

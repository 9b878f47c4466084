"""TLS: agents and runners speak it with the service, by a certificate of the operator's.

A user reads of it in docs/guides/self-hosting.md.
"""

from proxy.feature import Feature

FEATURE = Feature(
    settings=True,
    serving=True,
    embedded={"certfile": "none", "keyfile": "none"},  # a certificate would be another address's
)

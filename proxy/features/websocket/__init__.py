"""WebSockets of agents: messages pass unchanged, and the calls in them are recorded.

A user reads of them in docs/guides/clients.md.
"""

from proxy.feature import Feature

FEATURE = Feature(sockets=True)

"""The features of the service. Each is a folder here; nothing else names one.

Their order is that in which calls wait for them, and in which what they add is shown.
"""

NAMES = (
    "budgets",
    "pace",
    "drills",
    "alerts",
    "groups",
    "breakers",
    "operator_causes",
    "websocket",
    "prune",
    "traces",
    "tls",
    "virtual_keys",
    "failures",
    "compare",
    "reruns",
    "card",
    "metrics",
    "live",
    "help",
    "openapi",
    "exports",
)

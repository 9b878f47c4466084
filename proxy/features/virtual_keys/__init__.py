"""Virtual keys: the key routes of LiteLLM's proxy, with a rollout of its own for each key.

A user reads of them in docs/guides/integrations.md.
"""

from proxy.feature import Feature

FEATURE = Feature(plane=True)

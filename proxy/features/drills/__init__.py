"""Drills: an agent meets the failures that its rollout was registered with, and no provider.

A user reads of them in docs/guides/drill.md.
"""

from proxy.feature import Feature

FEATURE = Feature(registration=True, start=True)

"""Groups: a batch's rollouts by task for trainers, each announced once it has settled.

A user reads of them in docs/guides/rl.md.
"""

from proxy.feature import Feature

FEATURE = Feature(final=True, plane=True)

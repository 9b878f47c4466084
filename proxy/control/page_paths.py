"""Where pages are, for what links to them: other pages, and alerts."""

from __future__ import annotations

from urllib.parse import quote


def path_of(kind: str, name: str) -> str:
    """Return the path of one batch's or rollout's page.

    Arguments:
        kind: ``batches`` or ``rollouts``.
    """
    return f"/ui/{kind}/{quote(name, safe='')}"

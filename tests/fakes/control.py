"""The control plane's context without a running service, over one database."""

from __future__ import annotations

from typing import Any

from classifier.verdicts import EVIDENCE
from proxy.control.pricing import PriceTable
from proxy.control.queries import Service
from proxy.routing.keys import Keyring
from proxy.routing.upstreams import allow_list
from proxy.store.database import Database

SALT = b"s" * 32


class IdleRecorder:
    """A recorder that has written everything."""

    failing = False
    gaps_counted = 0
    waiting = 0

    def missing(self, _rollout_id: str) -> int:
        return 0


def control_over(database: Database, **parts: Any) -> Service:
    """A context over this database, with usual parts in place of those that are not given."""
    upstreams = parts.pop("upstreams", allow_list({}))
    usual: dict[str, Any] = {
        "recorder": IdleRecorder(), "keyring": Keyring(b"k" * 32), "policy": EVIDENCE,
        "salt": SALT, "new_id": lambda: "unused",
    }  # fmt: skip
    return Service(
        database=database, upstreams=upstreams, prices=PriceTable(upstreams), **usual | parts
    )

"""The measurement card of a batch."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from classifier.card import Measured, Stated, render
from proxy.control.batches import state_of
from proxy.control.queries import Service, version
from proxy.store.batches import registrations


async def make_card(service: Service, batch: str, *, harness: str | None = None) -> dict[str, Any]:
    """Render a batch's summary, as its page has it, as a card.

    Its export is not read, so the card has no digest of it.

    Arguments:
        harness: name and version of what ran the agents.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    state = (await state_of(service, batch)).value
    registered = await service.read(registrations, batch)
    stated = Stated(
        batch=batch,
        truezero=version(),
        classifier=version(),  # they are released together
        policy=service.policy,
        origins={
            name: urlsplit(each.url).netloc
            for name, each in service.upstreams.items()
            if each.url is not None
        },
        harness=harness,
    )
    return render(
        stated,
        Measured(
            counts=state.counts,
            summary=state.summary,
            answering=state.answering,
            registered=registered.alike,
            began=registered.began,
        ),
    )

"""The policy: the limits, retry settings and breaker threshold of classification."""

from __future__ import annotations

from dataclasses import dataclass

TRUSTED, UNTRUSTED = "trusted", "untrusted"
VALIDITY = ("invalid", "suspect", "none")  # from which finding on a rollout is not scoreable


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How to classify.

    ``name`` is "evidence" (every rule) or "seed" (benchflow's published behaviour).
    ``stall_s``: an agent that hangs up after this many seconds of silence was stalled.
    ``doomed_after``: equal permanent failures until a rollout is doomed; 0 turns it off.
    ``agents``: "trusted", or "untrusted" where they may fail calls to rid themselves of a
    score. ``validity``: "invalid", "suspect" or "none", the mildest finding that makes a rollout
    not scoreable. ``max_steps``: "score" or "exclude" rollouts that ran out of steps.
    ``content_filter``: "failure", or "answer" where a filter on a request is the outcome of what
    is tested; a filter on an answer is an answer under each.
    ``max_retries``, ``retry_base_s``, ``retry_cap_s``: see retries.
    ``repetition``: attempts in a row with one and the same cause that make a transient
    failure look deterministic. ``request_repeats``: failures of one and the same request
    inside a rollout that earn a warning. ``breaker_threshold``: 0 turns the breaker off.
    """

    name: str = "evidence"
    stall_s: float = 60.0
    doomed_after: int = 2
    agents: str = TRUSTED
    validity: str = "invalid"
    max_steps: str = "score"
    content_filter: str = "failure"
    max_retries: int = 2
    retry_base_s: float = 1.0
    retry_cap_s: float = 30.0
    repetition: int = 3
    request_repeats: int = 10
    breaker_threshold: int = 5


EVIDENCE = Policy()
SEED = Policy(name="seed")
POLICIES = {policy.name: policy for policy in (EVIDENCE, SEED)}


def named(name: str) -> Policy:
    """Return the policy of that name; ``ValueError`` lists the known names."""
    if name not in POLICIES:
        raise ValueError(f"policy: {name!r} is none of {', '.join(POLICIES)}")
    return POLICIES[name]

"""Refusals of agents' calls: one function for each sentence, named after the code of its refusal.

The relay and what reads a call's address raise what is made here. Refusals of the control plane
are made beside its questions, those of connections in `proxy.inbound`, a feature's in its folder.
"""

from __future__ import annotations

from collections.abc import Iterable

from proxy.routing.errors import RETRY_SOON, Refusal, RefusalCode
from truezero.mistakes import meant

# --- the address -------------------------------------------------------------------------------


def bad_path_bytes() -> Refusal:
    """Refuse bytes that no URL has."""
    return Refusal(400, "bad_path", "the path contains bytes that are not allowed in a URL")


def bad_path_segments() -> Refusal:
    """Refuse dot segments, which could leave an upstream's prefix."""
    return Refusal(400, "bad_path", "'.' and '..' segments are not forwarded")


def bad_role() -> Refusal:
    """Refuse a malformed role."""
    return Refusal(400, "bad_role", "a role is 1-40 of a-z 0-9 _ - (judge, user-simulator, …)")


def bad_rollout(flaw: str) -> Refusal:
    """Refuse a rollout id with a flaw."""
    return Refusal(400, "bad_rollout", flaw)


def bad_rollout_empty() -> Refusal:
    """Refuse an empty rollout id."""
    return bad_rollout("the path has no rollout id: /r/{rollout}/{upstream}/…")


def bad_rollout_encoding() -> Refusal:
    """Refuse a rollout id that is no text."""
    return bad_rollout("a rollout id must be UTF-8")


def reserved_rollout(rollout_id: str) -> Refusal:
    """Refuse a rollout id that stands for calls without one."""
    detail = f"the rollout id {rollout_id!r} is reserved for calls that name no rollout"
    return Refusal(400, "reserved_rollout", detail)


def no_rollout(path: str | None) -> Refusal:
    """Refuse a call that names no rollout; ``path``: the one that would, if it is known."""
    where = f"the path {path}" if path is not None else "the base_url /r/{rollout}/{upstream}/…"
    return Refusal(
        400,
        "no_rollout",
        f"no rollout given: use {where}, a rollout key (as the API key, or in the header "
        "x-truezero-key), or the header x-truezero-rollout",
    )


def unknown_upstream(name: str, path: str | None, upstreams: Iterable[str]) -> Refusal:
    """Refuse an unknown upstream; ``path``: the one with an upstream, if it is known."""
    upstreams = sorted(upstreams)
    known = ", ".join(upstreams)
    if path is not None:
        detail = f"the path names no upstream: use {path}, or one of {known} for its upstream"
    else:
        display_name = name if name.isascii() and name.isprintable() else "that"
        near = meant(display_name[:64], upstreams)
        detail = f"{display_name[:64]!r} is not an upstream{near or '.'} Known upstreams: {known}"
    return Refusal(404, "unknown_upstream", detail)


def unconfigured_upstream(name: str) -> Refusal:
    """Refuse an upstream whose URL nobody has set."""
    variable = f"TRUEZERO_UPSTREAM_{name.upper().replace('-', '_')}"
    return Refusal(404, "unconfigured_upstream", f"{name!r} has no URL: set {variable}=https://…")


# --- who calls ---------------------------------------------------------------------------------


def unknown_key() -> Refusal:
    """Refuse a rollout's key that this service has not made."""
    return Refusal(401, "unknown_key", "this truezero key is not valid here")


def unproven_rollout() -> Refusal:
    """Refuse a call that only names its rollout, if it has to prove it."""
    return Refusal(
        403,
        "unproven_rollout",
        "this call does not prove its rollout: use the base_url or the key that "
        "registration returned",
    )


def unknown_host() -> Refusal:
    """Refuse a call without a rollout at a name that is not the service's."""
    return Refusal(
        403,
        "unknown_host",
        "a call that names no rollout is served under a loopback name only; use the "
        "base_url /r/{rollout}/{upstream}/…, or set the host in TRUEZERO_PUBLIC_URL",
    )


def cross_origin() -> Refusal:
    """Refuse a call without a rollout that a page of another site makes."""
    return Refusal(403, "cross_origin", "a call from another site's page must name its rollout")


def rollout_ended() -> Refusal:
    """Refuse, or end, a call of a rollout that has ended."""
    return Refusal(
        403,
        "rollout_ended",
        "this rollout has ended: its key and its base_url open nothing any more",
    )


# --- what it may ask ---------------------------------------------------------------------------


def upstream_not_allowed(own: str | None) -> Refusal:
    """Refuse a call to another upstream than its rollout's own."""
    return Refusal(
        403,
        "upstream_not_allowed",
        f"this rollout was registered for the upstream {own!r} and its key opens no other",
    )


def path_not_allowed(opened_by: str, why: str) -> Refusal:
    """Refuse a path that the operator's key, or a server without one, does not open."""
    return Refusal(
        403,
        "path_not_allowed",
        f"{opened_by} opens model calls only: {why}; "
        'the setting operator_key_paths = "any" opens all paths',
    )


def responses_unknown() -> Refusal:
    """Refuse to continue a response while the database does not say whose it is."""
    return Refusal(
        503,
        "responses_unknown",
        "whose response this is cannot be looked up now; retry after 1 s",
        RETRY_SOON,
    )


def body_too_large(most_bytes: int) -> Refusal:
    """Refuse a request body over the limit."""
    return Refusal(413, "body_too_large", f"a request body has at most {most_bytes} bytes here")


# --- how many there are ------------------------------------------------------------------------


def too_many_calls(calls: str) -> Refusal:
    """Refuse a call while the service has its most calls in flight; ``calls``: how many."""
    return _full("too_many_calls", f"{calls} in flight")


def too_many_calls_of_rollout(calls: str) -> Refusal:
    """Refuse a call while its rollout has its most calls in flight; ``calls``: how many."""
    return _full("too_many_calls_of_rollout", f"{calls} of this rollout in flight")


def _full(code: RefusalCode, calls: str) -> Refusal:
    return Refusal(503, code, f"concurrency limit reached ({calls}); retry after 1 s", RETRY_SOON)


# --- what becomes of it at the provider --------------------------------------------------------


def upstream_unanswered(status: int, code: RefusalCode, upstream: str, error: object) -> Refusal:
    """Answer in the place of a provider that did not; the table of `failed` has the codes."""
    return Refusal(status, code, f"no answer from upstream {upstream!r}: {error}")


def upstream_status(status: int) -> Refusal:
    """Refuse to pass on a response whose status is none that ends an exchange."""
    return Refusal(502, "upstream_disconnected", f"the upstream answered with status {status}")

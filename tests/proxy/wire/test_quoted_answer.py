"""An upstream's answer in a gateway's sentence means what it means by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from hypothesis import given
from hypothesis import strategies as st

from classifier.causes import classify
from classifier.records import Ending, FailureEvidence, Kind, ProviderError
from classifier.verdicts import Subcategory
from proxy.wire.provider_error import read_error, read_text_error
from proxy.wire.quoted_answer import QuotedAnswer, quoted_answer
from tests.tables import each

Body = Mapping[str, object]

ANSWERS: tuple[tuple[int, Body, Subcategory], ...] = (
    (401, {"error": {"message": "That's no key of ours", "code": None}}, Subcategory.AUTH),
    (402, {"detail": "Nothing is left on this card"}, Subcategory.QUOTA),
    (429, {"message": "Come back a little later", "data": None}, Subcategory.RATE_LIMIT),
    (404, {"error": 'The model "m-9" does not exist'}, Subcategory.MODEL_NOT_FOUND),
    (422, {"detail": [{"loc": ["body", "n"], "msg": "Say it with a whole number"}]},
     Subcategory.REJECTED_REQUEST),
    (400, {"error": {"type": "insufficient_quota", "message": "No.\nAsk your admin"}},
     Subcategory.QUOTA),
    (503, {"errors": [{"message": "We are moving house", "code": 7}]}, Subcategory.PROVIDER_ERROR),
)  # fmt: skip
QUOTED: Mapping[str, Callable[[int, Body], str]] = {
    "by its status": lambda status, body: f"upstream returned {status}: {json.dumps(body)}",
    "by a client's exception": lambda status, body: f"Error code: {status} - {body!r}",
    "by a route's name": lambda status, body: f"[p/m-1] [{status}]: {json.dumps(body)} (again 5m)",
    "by FastAPI": lambda status, body: f"500: {status}: {body!r}",
    "by a class": lambda status, body: (
        f"proxy.APIStatusError: OpenAIException - {json.dumps({'status': status, **body})}. Group=g"
    ),
    "twice": lambda status, body: (
        f"Error from provider(p,m-1: {status}): {json.dumps(body)}Error: Error from provider(p)"
    ),
}


def _caused(error: ProviderError | None, *, http: int) -> Subcategory | None:
    evidence = FailureEvidence(
        upstream="u", api="", kind=Kind.INFERENCE, status=http, ending=Ending.COMPLETE, error=error
    )
    cause = classify(evidence)
    return cause.subcategory if cause else None


@each("way", tuple(QUOTED.items()), ids=lambda way: way[0])
@each("answer", ANSWERS, ids=lambda answer: f"{answer[0]}-{answer[2]}")
def test_what_a_gateway_quotes_means_what_it_means_by_itself(
    answer: tuple[int, Body, Subcategory], way: tuple[str, Callable[[int, Body], str]]
) -> None:
    status, body, cause = answer
    sentence = way[1](status, body)
    assert _caused(read_error(body), http=status) == cause
    assert _caused(read_error({"error": {"message": sentence}}), http=500) == cause
    assert _caused(read_error({"detail": sentence}), http=502) == cause
    assert _caused(read_text_error(sentence), http=502) == cause
    assert _caused(read_error({"error": sentence}), http=200) == cause


@each(
    "sentence, status",
    [
        ("Vertex says: 429 Resource exhausted", 429),
        ("bad reply from channel #14: status 529, message: Overloaded", 529),
        ("fallbacks are spent, last: [401] token revoked", 401),
        ("backend failed with HTTP 503", 503),
        ("the gateway may hold 500 calls", None),
        ("Could not load the image: its upstream answered with status 403", None),
        ("tool 'upstream status 429' is unknown", None),
        ("Unknown model: last [401]", None),
        ("no such function as upstream [402]", None),
    ],
)
def test_a_status_that_a_gateway_tells_of_its_upstream_counts_more_than_its_own(
    sentence: str, status: int | None
) -> None:
    quoted = quoted_answer(sentence)
    assert (quoted and quoted.status) == status
    error = read_error({"error": {"message": sentence, "code": 400}})
    assert error is not None
    assert error.status == (status or 400)


def test_a_wait_of_hours_behind_the_answer_makes_it_an_allotment() -> None:
    sentence = '[p/m-1] [429]: {"error": {"message": "Come back a little later"}} (reset after %s)'
    for wait, cause in (("5m", Subcategory.RATE_LIMIT), ("3h", Subcategory.QUOTA)):
        error = read_error({"error": {"message": sentence % wait}})
        assert _caused(error, http=503) == cause


@given(
    st.text(alphabet="{}[]'\"\\:, 4029-NonTrue", max_size=60).map(
        lambda tail: f"Error code: 400 - {{{tail}"
    )
)
def test_no_text_makes_it_raise(sentence: str) -> None:
    quoted = quoted_answer(sentence)
    assert quoted is not None
    assert quoted.status == 400


def test_a_body_longer_than_any_error_leaves_the_sentence() -> None:
    body = json.dumps({"error": {"code": "insufficient_quota", "message": "x" * 20_000}})
    assert quoted_answer(f"Error code: 400 - {body}") == QuotedAnswer(status=400)

"""Two runs in one rollout."""

from __future__ import annotations

from classifier.validity.surroundings import DUPLICATE_IDENTITY
from tests.classifier.validity.judged import call, coverage, found, level, record

BEGUN = call(begun_elsewhere=True)
OWN = call(begun_elsewhere=False)


def test_a_message_begun_twice_from_two_addresses_is_suspect() -> None:
    for calls, expected in (
        ([OWN, OWN], None),
        ([OWN, BEGUN], "suspect"),
        ([OWN, call()], None),
        ([OWN, call("200+side", begun_elsewhere=True)], None),  # titles begin alike
    ):
        assert level(DUPLICATE_IDENTITY, record(calls)) == expected, [
            x.begun_elsewhere for x in calls
        ]


def test_the_finding_counts_the_calls() -> None:
    finding = found(DUPLICATE_IDENTITY, record([OWN, OWN, BEGUN]))
    assert finding is not None
    assert finding.sentence == (
        "1 of 3 calls began with a message that another address had begun with before: two runs "
        "may share this rollout"
    )
    assert finding.evidence == ("x2",)


def test_calls_whose_first_message_was_not_seen_are_not_covered() -> None:
    assert coverage(DUPLICATE_IDENTITY, record([OWN, call()])) == (1, 2)
    assert coverage(DUPLICATE_IDENTITY, record([call("429")])) is None

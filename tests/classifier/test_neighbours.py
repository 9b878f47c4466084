"""What other rollouts got on a failed call's lane proves or contradicts its failure."""

from __future__ import annotations

from dataclasses import replace

from classifier.neighbours import corroborated, neighbours_of
from classifier.records import Exchange, Neighbours
from tests.builders import calls

FAILED = calls("500[100-101]")[0]


def others(*texts: str) -> list[Exchange]:
    """The calls of other rollouts, one rollout for each text."""
    return [
        replace(x, rollout_id=f"other-{n}", id=f"{n}-{x.id}", request_digest=f"{n}-{x.id}")
        for n, text in enumerate(texts)
        for x in calls(text)
    ]


# What failed, what others got, and whether it is corroborated.
CASES: tuple[tuple[str, tuple[str, ...], bool | None], ...] = (
    ("500[100-101]", (), None),
    ("500[100-101]", ("500[90-91]",), None),
    ("500[100-101]", ("500[90-91]", "500[110-111]"), True),
    ("500[100-101]", ("500[90-91] 500[92-93]",), None),
    ("500[100-101]", ("500[90-91]", "500[110-111]", "200[105-106]"), False),
    ("500[100-101]", ("500[90-91]", "500[110-111]", "200[150-151]"), True),
    ("500[100-101]", ("500[90-91]", "500[150-151]", "200[120-121]", "500[105-106]"), True),
    ("500[100-101]", ("500[20-21]", "500[190-191]"), None),
    ("500[100-101]", ("200[90-91]",), False),
    ("500[100-101]", ("200[20-21]",), None),
    ("500[100-101]", ("200[20-95]",), False),
    ("500[100-101]", ("500%b[90-91]", "500@o5[90-91]", "200@o5#b[99-100]"), None),
    ("500[100-101]", ("503[90-91]", "503[90-91]"), None),
    ("503[100-101]", ("502[90-91]", "529[90-91]"), True),
    ("401[100-101]", ("402[90-91]", "402[90-91]"), None),
    ("401[100-101]", ("401#bad[90-91]", "401#bad[90-91]"), None),
    ("401#bad[100-101]", ("401#bad[90-91]", "401#bad[99-100]", "200[95-96]"), False),
    ("401+operators#bad[100-101]", ("200[95-96]",), None),
    ("401+added#bad[100-101]", ("200[95-96]",), None),
    ("401[100-101]", ("401+probe[90-91]",), None),
    ("stalled[40-100]", ("stalled[40-101]", "stalled[41-99]"), True),
    ("left[40-100]", ("left[40-101]", "left[41-99]"), True),
    ("500[100-101]", ("200+embed[90-91]", "200+judge[90-91]", "200+twice[90-91]"), None),
)  # fmt: skip


def test_others_failures_prove_and_others_answers_contradict() -> None:
    for text, near, expected in CASES:
        found = neighbours_of(calls(text)[0], others(*near))
        assert corroborated(found) is expected, (text, near, found)


def test_one_request_that_two_rollouts_sent_proves_nothing() -> None:
    same = [replace(x, request_digest="d0") for x in others("500[90-91]", "500[110-111]")]
    assert neighbours_of(FAILED, same).alike == 0
    outage = calls("503[100-101]")[0]
    assert neighbours_of(outage, [replace(x, status=503) for x in same]).alike == 2


def test_its_own_rollouts_and_injected_calls_are_no_neighbours() -> None:
    near = others("500[90-91]", "500[110-111]")
    assert neighbours_of(FAILED, [replace(x, rollout_id="r1") for x in near]) == Neighbours()
    assert neighbours_of(FAILED, [replace(x, injected=True) for x in near]) == Neighbours()


def test_starts_are_counted_in_the_ten_seconds_before() -> None:
    near = others("429[95-96] 200[99-100]", "200[91-99]", "200[90-99] 200[101.5-102]")
    assert neighbours_of(FAILED, near).starts == 3


def test_others_are_struck_at_once_by_other_requests_within_five_seconds() -> None:
    near = others("503[90-96]", "503[100-106]", "503[100-107]", "502[99-100] 503[99-101]")
    assert neighbours_of(calls("503[100-101]")[0], near).at_once == 3
    same = [replace(x, request_digest="d0") for x in near]
    assert neighbours_of(calls("503[100-101]")[0], same).at_once == 0


def test_the_lanes_open_calls_are_counted_as_the_failed_one_ends() -> None:
    near = others("200[90-101]", "200[101-109] 429[100.5-102]", "200[102-103]", "200@b[90-109]")
    assert neighbours_of(FAILED, near).open == 2


def test_a_model_that_answers_others_under_another_spelling_is_there() -> None:
    failed = calls("404@m-2031-01-01[100-101]")[0]
    for near, respelled in (
        (("200@m[90-91]",), True),
        (("200@m[90-91]", "200@m-2031-01-01[95-96]"), False),
        (("404@m[90-91]",), False),  # nobody was answered
        (("200@o[90-91]",), False),  # another model
        (("200@m[10-11]",), False),  # long before
    ):
        peers = ["other-0", "other-1"]
        assert neighbours_of(failed, others(*near), peers=peers).respelled is respelled, near
    elsewhere = others("404@m[90-91]", "200@m[90-91]")
    assert not neighbours_of(failed, elsewhere, peers=["other-0"]).respelled  # registered otherwise
    assert not neighbours_of(failed, elsewhere).respelled

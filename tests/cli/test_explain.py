"""`holdfast explain`: what a reason means."""

import json

from holdfast.reasons import Reason
from tests.cli.conftest import Holdfast


def test_a_reason_is_explained(holdfast: Holdfast) -> None:
    ran = holdfast("explain", "NotAMultiple")
    assert (ran.code, ran.out) == (0, f"NotAMultiple: {Reason.NOT_A_MULTIPLE.sentence}\n")


def test_all_are_listed(holdfast: Holdfast) -> None:
    ran = holdfast("explain", "-o", "json")
    assert json.loads(ran.out) == {one.value: one.sentence for one in Reason}


def test_what_is_no_reason_is_refused_with_the_nearest(holdfast: Holdfast) -> None:
    ran = holdfast("explain", "notamultiple")
    assert ran.code == 2
    assert "did you mean NotAMultiple?" in ran.err

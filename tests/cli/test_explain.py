"""`holdfast explain`: what a reason means, how to see it and what to do."""

import json
from dataclasses import asdict

import pytest

from holdfast.reasons import Reason
from tests.cli.conftest import Holdfast


@pytest.mark.parametrize(
    "name",
    [
        "LocationMissing",
        "locationmissing",
        "LOCATIONMISSING",
        "location-missing",
        "LOCATION_MISSING",
        "Location missing",
    ],
)
def test_a_reason_is_explained_with_its_cure_in_any_case(holdfast: Holdfast, name: str) -> None:
    ran = holdfast("explain", name)
    explanation = Reason.LOCATION_MISSING.explanation
    assert ran.code == 0
    assert ran.out.split("\n\n") == [
        f"LocationMissing: {explanation.meaning}",
        f"Where: {explanation.where}",
        f"Look: {explanation.look}",
        f"Do: {explanation.do}\n",
    ]


def test_what_only_a_plan_finds_names_no_condition(holdfast: Holdfast) -> None:
    assert "Where:" not in holdfast("explain", "NotAMultiple").out


def test_links_lead_to_pages_and_other_reasons_are_named(holdfast: Holdfast) -> None:
    assert "every field (docs/reference/spec.md)" in holdfast("explain", "InvalidSpec").out
    assert "see BrokerUnreachable and" in holdfast("explain", "AskingBrokers").out
    assert [reason for reason in Reason if "](" in holdfast("explain", reason.value).out] == []


def test_all_are_listed_with_what_they_mean(holdfast: Holdfast) -> None:
    assert holdfast("explain").out.splitlines() == [f"{reason.value}: {reason.sentence}" for reason in Reason]


def test_programs_get_all_of_it(holdfast: Holdfast) -> None:
    ran = holdfast("explain", "-o", "json")
    assert json.loads(ran.out) == {reason.value: asdict(reason.explanation) for reason in Reason}


def test_what_is_no_reason_is_refused_with_the_nearest(holdfast: Holdfast) -> None:
    ran = holdfast("explain", "not-a-multipel")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "holdfast: there is no reason not-a-multipel; did you mean NotAMultiple?\n"


def test_several_near_reasons_are_named(holdfast: Holdfast) -> None:
    assert "did you mean KeyMismatch or KeyTypeMismatch" in holdfast("explain", "keymissmatch").err


def test_what_is_near_no_reason_leads_to_the_list(holdfast: Holdfast) -> None:
    assert (
        holdfast("explain", "xyzzy").err == "holdfast: there is no reason xyzzy; `holdfast explain` lists all of them\n"
    )

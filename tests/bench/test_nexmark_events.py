"""Nexmark's events are the same however they are cut, and are spread as the reference's."""

import numpy as np
import pytest

from bench.nexmark.events import EPOCH, KINDS, Nexmark

EVENTS = 50_000


@pytest.mark.parametrize("kind", KINDS)
def test_rows_depend_on_their_number_and_the_seed_alone(kind: str) -> None:
    whole = Nexmark().rows(kind, range(EVENTS))
    middle = whole.num_rows // 3
    assert whole.slice(middle, 70).equals(getattr(Nexmark(), kind)(middle, 70))
    assert not whole.equals(Nexmark(seed=2).rows(kind, range(EVENTS)))


def test_one_event_in_fifty_is_a_person_three_are_auctions() -> None:
    rows = [Nexmark().rows(kind, range(EVENTS)) for kind in KINDS]
    assert [some.num_rows for some in rows] == [1000, 3000, 46_000]
    times = np.sort(np.concatenate([some["date_time"].to_numpy() for some in rows]))
    assert set(np.diff(times)) == {np.timedelta64(1, "ms")}


def test_hot_auctions_have_half_of_bids_hot_bidders_three_quarters() -> None:
    bids = Nexmark().rows("bid", range(EVENTS)).to_pandas()
    assert (bids["auction"] % 100 == 0).mean() == pytest.approx(0.5, abs=0.02)
    assert (bids["bidder"] % 100 == 1).mean() == pytest.approx(0.75, abs=0.02)
    assert bids["channel"].isin(["Google", "Facebook", "Baidu", "Apple"]).mean() == pytest.approx(0.5, abs=0.02)
    assert np.median(np.log10(bids["price"])) == pytest.approx(5, abs=0.1)


def test_nearly_all_bids_are_for_existing_auctions() -> None:
    bids = Nexmark().rows("bid", range(EVENTS)).to_pandas().set_index("auction")
    auctions = Nexmark().rows("auction", range(EVENTS)).to_pandas().set_index("id")
    opened = bids.join(auctions, rsuffix="_of_auction")
    before = opened["date_time"] < opened["date_time_of_auction"]
    assert 0 < before.mean() < 0.06


def test_a_range_that_cuts_an_epoch_is_refused() -> None:
    with pytest.raises(ValueError, match=f"epochs of {EPOCH}"):
        Nexmark().rows("bid", range(70))

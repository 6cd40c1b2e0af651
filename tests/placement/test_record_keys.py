"""Names of apps and runs become keys and come back; no two runs share a key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.placement.metadata_store import KeyNameError, check_key, key_of, object_name
from holdfast.placement.record_format import RecordKeys, key_part
from tests.placement.records import RUN_IDS

DIGEST = "0123456789abcdef" * 4


@given(RUN_IDS, RUN_IDS)
def test_every_key_is_valid_and_names_its_run(app: str, run: str) -> None:
    keys = RecordKeys(app)
    for key in (keys.head(run), keys.shard(run, DIGEST)):
        assert key_of(object_name(check_key(key))) == key
        assert keys.run_of(key) == run
        assert key.startswith(keys.of_run(run))


@given(st.lists(RUN_IDS, min_size=2, max_size=2, unique=True))
def test_two_runs_share_no_key(runs: list[str]) -> None:
    keys = RecordKeys("app")
    one, other = (keys.of_run(run) for run in runs)
    assert not one.startswith(other)
    assert not other.startswith(one)


@given(st.lists(RUN_IDS, min_size=2, max_size=2, unique=True))
def test_two_apps_share_no_key(apps: list[str]) -> None:
    one, other = (RecordKeys(app).prefix for app in apps)
    assert not one.startswith(other)
    assert not other.startswith(one)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("1", "1"),
        ("ad-clicks", "ad-clicks"),
        ("A", "x-84"),
        ("v1.2_b", "x-eooiscivc8"),
        ("x-1", "x-f0mj2"),
        ("-", "x-5k"),
    ],
)
def test_a_plain_name_stays_and_any_other_is_coded(name: str, part: str) -> None:
    assert key_part(name) == part


@pytest.mark.parametrize("name", ["", "a" * 64, "é" * 32])
def test_a_name_too_long_or_empty_is_refused_with_its_length(name: str) -> None:
    with pytest.raises(KeyNameError, match=f"has {len(name.encode())} bytes"):
        RecordKeys("app").head(name)


@pytest.mark.parametrize(
    "key",
    [
        "other/record/1/head",
        "app/record/head",
        "app/record/1/tail",
        "app/record/1/head/2",
        "app/records/1/head",
        f"app/record/1/{DIGEST}",
        "app/record/x-/head",
        "app/record/x-84A/head",
        "app/record/x-zz/head",
        "app/record/x-e8/head",
        "app/record/-/head",
    ],
)
def test_a_key_of_something_else_belongs_to_no_run(key: str) -> None:
    assert RecordKeys("app").run_of(key) is None
    assert not RecordKeys("app").is_shard(key)


def test_heads_and_shards_are_told_apart() -> None:
    keys = RecordKeys("app")
    assert keys.is_shard(keys.shard("1", DIGEST))
    assert not keys.is_shard(keys.head("1"))
    assert keys.run_of(keys.shard("1", DIGEST)) == "1"

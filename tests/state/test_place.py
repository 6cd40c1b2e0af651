"""How large stores may grow."""

import pytest

from holdfast_runtime.state.store.directory import quota_for


@pytest.mark.parametrize(
    ("size", "quota"),
    [
        ("10Gi", 10 << 30),
        ("1.5Gi", 3 << 29),
        ("500M", 500_000_000 // 65_536 * 65_536),
        ("2k", 1 << 20),
        ("1", 1 << 20),
        ("7Ei", 1 << 40),
        ("2Ti", 1 << 40),
    ],
)
def test_a_store_may_fill_its_disk_in_whole_pages(size: str, quota: int) -> None:
    assert quota_for(size) == quota

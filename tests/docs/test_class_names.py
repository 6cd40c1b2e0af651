"""The check of class names finds a second class of one name, and nothing in the product."""

from pathlib import Path

from tests.class_names import PACKAGES, doubles


def test_each_public_class_name_means_one_thing() -> None:
    assert doubles() == {}


def test_a_name_that_two_packages_define_is_found(tmp_path: Path) -> None:
    for package in PACKAGES[:2]:
        (tmp_path / package).mkdir(parents=True)
        (tmp_path / package / "one.py").write_text("class Range: ...\nclass _Own: ...\n")
    assert doubles(tmp_path) == {"Range": ["core/holdfast/one.py:1", "runtime/holdfast_runtime/one.py:1"]}

"""Benchmarks are started as `python bench/NAME.py`: what lies beside them is found before the standard library."""

import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"


def test_no_package_has_the_name_of_one_of_python() -> None:
    # `operator` once did, and `import random` failed in all of them. Without an `__init__.py` it gives way.
    packages = {path.parent.name for path in BENCH.glob("*/__init__.py")}
    assert packages
    assert not packages & sys.stdlib_module_names

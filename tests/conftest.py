"""Options and profiles shared by all tests."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.tiers import is_real

SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large)

# CI draws the same examples each time, so that what lands is what was seen; `make soak` draws many fresh ones.
settings.register_profile("ci", max_examples=150, deadline=None, derandomize=True, suppress_health_check=SLOW_IS_FINE)
settings.register_profile("soak", max_examples=5_000, deadline=None, suppress_health_check=SLOW_IS_FINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# In the background of a shell Ctrl-C is ignored, and programs that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases",
        nargs="+",
        type=Path,
        default=None,
        metavar="FILE",
        help="conformance cases to run instead of the project's own; a file's base name says its notation",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_real(item):
            item.add_marker(pytest.mark.real)

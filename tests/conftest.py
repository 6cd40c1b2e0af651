"""Options and profiles shared by all tests."""

import gc
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.java_archive import fast_start
from tests.tiers import why_real
from tests.waiting import pace

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler.protocol import Scheduling

SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large)

# CI draws the same examples each time, so that what lands is what was seen; `make soak` draws many fresh ones.
settings.register_profile("ci", max_examples=30, deadline=None, derandomize=True, suppress_health_check=SLOW_IS_FINE)
settings.register_profile("soak", max_examples=5_000, deadline=None, suppress_health_check=SLOW_IS_FINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# In the background of a shell Ctrl-C is ignored, and programs that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What commands say must not depend on the machine's language; argparse looks for translations of each of its words.
os.environ["LANGUAGE"] = "C"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases",
        nargs="+",
        type=Path,
        default=None,
        metavar="FILE",
        help="conformance cases to run instead of the project's own; a file's base name says its notation",
    )
    parser.addoption("--why-real", action="store_true", help="run nothing; say why the chosen tests are real")


def pytest_configure() -> None:
    pace()  # before there are workers, so that all have the same
    gc.disable()


def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "Scheduling | None":
    if config.option.dist != "loadfile":
        return None
    from tests.lanes import LaneScheduling  # noqa: PLC0415 - only where several processes run tests

    return LaneScheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("real") and "SPARK_SUBMIT_OPTS" not in os.environ:
        os.environ["SPARK_SUBMIT_OPTS"] = fast_start()


def pytest_collection_finish() -> None:
    # Tests and modules stay till the end: looking through them for garbage again and again took a twentieth of the CPU.
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if reason := why_real(item):
            item.add_marker(pytest.mark.real(reason))
    # What real components are made of is compiled beside the pure tests: who needs it comes when it is there.
    items.sort(key=lambda item: item.get_closest_marker("smoke") is not None)
    if config.option.why_real:
        for item in items:
            for mark in item.iter_markers("real"):
                print(f"{item.nodeid} is real because {mark.args[0]}")  # noqa: T201 - the answer to the option
        items.clear()

"""Why: one broker for all tests of a session, because starting one takes longer than most of them."""

from collections.abc import Iterator

import pytest

from tests.kafka.broker import Broker


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A running broker, shared: give topics names of your own, and don't stop it. Tests that do start their own."""
    with Broker() as running:
        yield running

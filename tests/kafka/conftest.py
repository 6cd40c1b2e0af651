"""One broker for all tests of a session, because starting one takes longer than most of them."""

from collections.abc import Callable, Iterator

import pytest

from holdfast_runtime.streams.kafka.read.fetcher import RangeFetcher
from holdfast_runtime.streams.kafka.read.range_read import FetchPatience
from tests.kafka.broker import Broker
from tests.kafka.known import LIMITS, READERS, reader, settings_of
from tests.registry.server import Apicurio


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A running broker, shared: give topics names of your own, and don't stop it. Tests that do start their own."""
    with Broker() as running:
        yield running


@pytest.fixture(scope="session")
def apicurio() -> Iterator[Apicurio]:
    """A running schema registry, shared: give subjects names of your own."""
    with Apicurio() as running:
        yield running


@pytest.fixture(params=READERS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each of the readers there are."""
    return str(request.param)


@pytest.fixture
def opened() -> Iterator[Callable[..., RangeFetcher]]:
    """Makes fetchers that are closed in the end."""
    made: list[RangeFetcher] = []

    def open_one(kind: str, bootstrap: str, limits: FetchPatience = LIMITS, **config: str) -> RangeFetcher:
        made.append(reader(kind, settings_of(bootstrap, **config), limits))
        return made[-1]

    yield open_one
    for fetcher in made:
        fetcher.close()

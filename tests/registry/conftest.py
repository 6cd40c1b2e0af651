"""One registry for all tests of a session, because starting one takes longer than all of them."""

from collections.abc import Iterator

import pytest

from tests.registry.server import Apicurio


@pytest.fixture(scope="session")
def apicurio() -> Iterator[Apicurio]:
    """A running registry, shared: give subjects names of your own, and don't stop it."""
    with Apicurio() as running:
        yield running

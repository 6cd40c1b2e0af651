"""One S3 server for all tests of a package that asks for it, by importing `gateway` into its `conftest`."""

from collections.abc import Iterator

import pytest

from tests.s3.gateway import CREDENTIALS, Gateway


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A server that runs; this process and its children have its credentials, as pods would."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in CREDENTIALS.items():
            patched.setenv(name, value)
        with Gateway(tmp_path_factory.mktemp("s3")) as running:
            yield running

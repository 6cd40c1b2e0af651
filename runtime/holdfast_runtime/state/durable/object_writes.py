"""Small objects written in one request each, and a look at the names that follow one, by `obstore`'s client.

A conditional write is one that the store refuses if the name is taken. Stores that don't know the condition ignore it
or refuse it, so whether this one does is found out: `creates` is None until then. Must not ask twice: a write whose
answer was lost may be there.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from holdfast_runtime.state.durable.object_answers import NO_CREDENTIALS, ClientFinding, StoreAnswerError

_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_URL = re.compile(r"performing [A-Z]+ (https?://\S+)")
_CODE, _MESSAGE = re.compile(r"<Code>(\w+)</Code>"), re.compile(r"<Message>([^<]*)</Message>")
_NOT_IMPLEMENTED = 501


class ObjectWrites:
    """The client for one bucket. Threads may use it at once."""

    def __init__(self, store: S3Store, address: str) -> None:
        self._store, self._address = store, address
        self.creates: bool | None = None
        """Whether the store refuses names that are taken; None: not known yet."""

    def replace(self, key: str, content: bytes) -> None:
        """Write an object, whatever was there."""
        with self._reporting("PutObject"):
            self._store.put(key, content, mode="overwrite", use_multipart=False)

    def create(self, key: str, content: bytes) -> bool:
        """Write an object and return whether it was free; where the store knows no conditions it replaces."""
        if self.creates is False:
            self.replace(key, content)
            return True
        try:
            created = self._create(key, content)
            if self.creates is None:
                # Taken now, by the same content, so nothing is lost if the store does not mind.
                self.creates = not (created and self._create(key, content))
        except StoreAnswerError as error:
            if self.creates or error.finding.status != _NOT_IMPLEMENTED:
                raise
            self.creates = False
            self.replace(key, content)
            return True
        return created

    def names_behind(self, directory: str, name: str) -> list[str]:
        """Return the names in this directory, which has no further ones, that sort behind this one."""
        start = len(directory) + 1
        with self._reporting("ListObjectsV2"):
            chunks = self._store.list(directory, offset=f"{directory}/{name}" if name else None)
            return [info["path"][start:] for chunk in chunks for info in chunk]

    def _create(self, key: str, content: bytes) -> bool:
        with self._reporting("PutObject"):
            try:
                self._store.put(key, content, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    @contextmanager
    def _reporting(self, operation: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, FileNotFoundError) as error:
            # The client repeats what it signed; that is no secret, but nobody's business either.
            raise _answer(str(error), operation, self._address) from None


def _answer(text: str, operation: str, address: str) -> StoreAnswerError:
    summary = text.partition("\n\nDebug source")[0]
    url, status, code = _URL.search(summary), _STATUS.search(summary), _CODE.search(summary)
    message = _MESSAGE.search(summary)
    reason = message[1] if message is not None else summary.partition(": <")[0].splitlines()[0]
    if url is not None and not url[1].startswith(address):
        kind = NO_CREDENTIALS
    elif status is not None:
        kind = "UNKNOWN" if code is None else code[1]
    else:
        kind = "NETWORK_CONNECTION" if "HTTP error" in summary else "UNKNOWN"
    return StoreAnswerError(ClientFinding(kind, None if status is None else int(status[1]), operation), reason)

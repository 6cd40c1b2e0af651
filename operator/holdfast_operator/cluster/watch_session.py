"""The HTTP session of kopf's watches, which takes out of every response what can't be parsed safely.

kopf parses whatever a watch sends, and users write what is in it. Must not know what is watched.
"""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import kopf

from holdfast.bounded_json import WATCHED, ObjectDepth, bounded_objects


def watch_session(info: kopf.ConnectionInfo) -> kopf.AiohttpSession:
    """A session for this connection; kopf closes it."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
        headers=info.as_http_headers(),
        proxy=info.proxy_url,
        trust_env=info.trust_env,
        response_class=_Response,
    )
    return kopf.AiohttpSession(
        server=info.server,
        default_namespace=info.default_namespace,
        priority=info.priority,
        expiration=info.expiration,
        aiohttp_session=session,
    )


class _Response(aiohttp.ClientResponse):
    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        """Begin to read, through the filter."""
        await super().start(connection)
        self.content = _Content(self.content)  # type: ignore[assignment] # what kopf and aiohttp call of it is there
        return self


class _Content:
    """What is read of a response: lists at once, watches line by line."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def read(self) -> bytes:
        return bounded_objects(await self._content.read(), ObjectDepth.LIST, WATCHED)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        rest = b""
        async for data in self._content.iter_chunked(size):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield bounded_objects(line, ObjectDepth.EVENT, WATCHED) + b"\n"
        yield bounded_objects(rest, ObjectDepth.EVENT, WATCHED)

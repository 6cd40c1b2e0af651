"""The HTTP session of kopf's watches, which removes from every response what can't be parsed safely.

kopf parses whatever a watch sends, and users control its content. Must not know what is watched.
"""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import kopf

from holdfast.bounded_json import WATCHED, ObjectDepth, bounded_objects


def watch_session(info: kopf.ConnectionInfo) -> kopf.AiohttpSession:
    """Return a session for this connection; kopf closes it."""
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
        """Start reading through the filter."""
        await super().start(connection)
        self.content = _Content(self.content)  # type: ignore[assignment] # it has what kopf and aiohttp call
        return self


class _Content:
    """The filtered content of a response: lists as a whole, watches line by line."""

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

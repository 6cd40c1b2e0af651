"""A node that the API server can ask for what kubelets are asked: HTTPS on loopback, as `node-a`.

Must not know what is asked for: handlers do.
"""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.api.admin import Admin
from tests.api.plane import Plane
from tests.waiting import patience

_NODE = "/api/v1/nodes/node-a"


@contextmanager
def node(plane: Plane, admin: Admin, handler: type[BaseHTTPRequestHandler]) -> Iterator[None]:
    """A node whose kubelet answers with this handler, as long as this lasts."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(plane.directory / "server.crt", plane.directory / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="kubelet", daemon=True)
    thread.start()
    try:
        admin.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}})
        address = {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}
        port = {"daemonEndpoints": {"kubeletEndpoint": {"Port": server.server_address[1]}}}
        admin.patch(f"{_NODE}/status", {"status": address | port})
        yield
    finally:
        admin.delete(_NODE)
        server.shutdown()
        server.server_close()
        thread.join(patience(20))

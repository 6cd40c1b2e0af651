"""Who gets the page, and who does not."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from holdfast.errors import UserActionError
from holdfast_cli.cluster.app import APPS
from holdfast_cli.ui.looks import ClusterLooks
from holdfast_cli.ui.server import PageServer, page_files
from tests.ui.clusters import FakeCluster, whole_app
from tests.waiting import patience


@dataclass(frozen=True)
class Heard:
    """An answer."""

    status: int
    headers: dict[str, str]
    body: bytes


@pytest.fixture(scope="module")
def server() -> Iterator[PageServer]:
    looks = ClusterLooks(lambda: FakeCluster((APPS, whole_app())), "test", ("apps",), time.monotonic)
    page_server = PageServer(looks, 0)
    thread = threading.Thread(target=page_server.serve, daemon=True)
    thread.start()
    yield page_server
    page_server.stop()
    page_server.close()
    thread.join()


def ask(server: PageServer, path: str, method: str = "GET", **headers: str) -> Heard:
    """Send this path as it is: no client would tidy it up first."""
    address = urlsplit(server.address)
    connection = http.client.HTTPConnection(address.netloc, timeout=patience(20))
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    heard = Heard(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    connection.close()
    return heard


def below(server: PageServer, path: str) -> str:
    """A path of the page."""
    return f"{urlsplit(server.address).path}{path}"


def test_the_page_and_its_files_are_there(server: PageServer) -> None:
    page = ask(server, below(server, ""))
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for name in ("page.css", "page.js", "list.js", "app.js", "plan.js", "log.js", "dom.js", "icon.svg"):
        assert ask(server, below(server, name)).status == 200, name
    assert ask(server, below(server, "page.js")).headers["content-type"].startswith("text/javascript")


def test_only_this_origin_may_be_used_by_the_page(server: PageServer) -> None:
    for path in (below(server, ""), below(server, "api/apps"), "/", "/open/x"):
        headers = ask(server, path).headers
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


def test_files_name_nothing_from_elsewhere() -> None:
    for name, file in page_files().items():
        text = file.body.decode().replace("http://www.w3.org/", "")
        assert "//" not in text.replace("// ", ""), name
        assert "innerHTML" not in text
        assert "style=" not in text


@pytest.mark.parametrize(
    "path", ["/", "/api/apps", "/wrong/", "/wrong/api/apps", "/%00/", "//", "/%C3%A9/api/apps", "*"]
)
def test_without_the_secret_nothing_is_shown(server: PageServer, path: str) -> None:
    heard = ask(server, path)
    assert heard.status == 404
    assert heard.body == b"open the address that holdfast ui has printed\n"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::1", "127.0.0.1:x"]
)
def test_another_host_is_refused(server: PageServer, host: str) -> None:
    assert ask(server, below(server, "api/apps"), Host=host).status == 403


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost", "localhost:8080"])
def test_a_forwarded_port_is_not_refused(server: PageServer, host: str) -> None:
    assert ask(server, below(server, "api/apps"), Host=host).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
def test_nothing_can_be_changed(server: PageServer, method: str) -> None:
    heard = ask(server, below(server, "api/apps"), method)
    assert (heard.status, heard.headers["allow"]) == (405, "GET")


@pytest.mark.parametrize(
    "path",
    [
        "../server.py",
        "..%2fserver.py",
        "%2e%2e/server.py",
        "page/../../server.py",
        "/etc/passwd",
        "index.html/..",
        "__init__.py",
        "api/",
        "api/apps/",
        "api/apps/apps",
        "api/apps/apps/ads/more",
        "api/apps/apps/..",
        "api/apps/apps%2fx/ads",
        "api/apps/../kube-system",
        "api/logs/apps/ads/..%2f..%2fsecrets",
        "api/secrets/apps/ads",
    ],
)
def test_no_path_leads_elsewhere(server: PageServer, path: str) -> None:
    assert ask(server, below(server, path)).status == 404


def test_what_is_unchanged_is_not_sent_again(server: PageServer) -> None:
    heard = ask(server, below(server, "api/apps"))
    assert json.loads(heard.body)["apps"][0]["app"] == "ads"
    again = ask(server, below(server, "api/apps"), If_None_Match=heard.headers["etag"])
    assert (again.status, again.body) == (304, b"")


def test_the_address_for_the_browser_is_good_once(server: PageServer) -> None:
    ticket = urlsplit(server.opening_address()).path
    assert urlsplit(server.address).path not in ticket
    assert ask(server, "/open/guess").status == 404
    first = ask(server, ticket)
    assert (first.status, first.headers["location"]) == (303, urlsplit(server.address).path)
    assert ask(server, ticket).status == 404


def test_each_server_has_a_secret_of_its_own(server: PageServer) -> None:
    looks = ClusterLooks(FakeCluster, "test", ("apps",), time.monotonic)
    other = PageServer(looks, 0)
    other.close()
    assert len(urlsplit(other.address).path) > 30
    assert urlsplit(other.address).path != urlsplit(server.address).path


def test_a_port_in_use_is_said_with_the_cure(server: PageServer) -> None:
    port = urlsplit(server.address).port
    assert port is not None
    looks = ClusterLooks(FakeCluster, "test", ("apps",), time.monotonic)
    with pytest.raises(UserActionError, match=f"port {port} can't be used: .*; choose another --port"):
        PageServer(looks, port)

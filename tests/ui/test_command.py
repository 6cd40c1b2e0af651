"""The command line of `holdfast ui`."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast_cli.ui.looks import ClusterLooks
from holdfast_cli.ui.server import PageServer
from tests.cli.conftest import Holdfast, holdfast
from tests.waiting import wait_until

__all__ = ["holdfast"]
KUBECONFIG = """\
current-context: test
contexts: [{name: test, context: {cluster: c, user: u, namespace: shop}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was opened in the browser, for a user with a kubeconfig who presses Ctrl-C at once; and the first look."""
    addresses: list[str] = []

    def interrupted(_: PageServer) -> None:
        raise KeyboardInterrupt

    def first_look(_: ClusterLooks) -> None:
        addresses.append("first look")

    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", addresses.append)
    monkeypatch.setattr(PageServer, "serve", interrupted)
    monkeypatch.setattr(ClusterLooks, "apps", first_look)
    return addresses


def test_the_address_is_printed_alone_and_ctrl_c_ends(holdfast: Holdfast, opened: list[str]) -> None:
    ran = holdfast("ui")
    assert ran.code == 0
    (address,) = ran.out.splitlines()
    assert address.startswith("http://127.0.0.1:")
    assert "Ctrl-C ends it" in ran.err
    secret = address.rstrip("/").rpartition("/")[2]
    wait_until(lambda: len(opened) == 2, 20, "the first look is begun")
    (opening,) = (address for address in opened if address != "first look")
    assert "/open/" in opening
    assert secret not in opening


def test_no_browser_opens_where_none_is_wanted(
    holdfast: Holdfast, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert holdfast("ui", "--no-browser").code == 0
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert holdfast("ui").code == 0
    assert set(opened) <= {"first look"}


def test_in_a_pod_the_way_to_the_page_is_printed(
    holdfast: Holdfast, opened: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("HOSTNAME", "holdfast-ui-0")
    ran = holdfast("ui", "--no-browser")
    port = urlsplit(ran.out.strip()).port
    assert f"kubectl port-forward -n default holdfast-ui-0 {port}" in ran.err
    assert opened in ([], ["first look"])


@pytest.mark.usefixtures("opened")
def test_a_list_is_of_all_namespaces_that_are_named(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    scopes: list[tuple[str, ...]] = []

    def made(_: ClusterLooks, *arguments: Any) -> None:
        scopes.append(arguments[2])

    monkeypatch.setattr(ClusterLooks, "__init__", made)
    for words in ((), ("-A",), ("-n", "b", "-n", "a", "-n", "b")):
        assert holdfast("ui", "--no-browser", *words).code == 0
    assert scopes == [("shop",), (), ("b", "a")]
    ran = holdfast("ui", "-n", "a", "-n", "../b")
    assert (ran.code, len(scopes)) == (2, 3)
    assert "../b is no namespace" in ran.err


@pytest.mark.parametrize("port", ["x", "-1", "65536", "1e3", "٣"])
def test_what_is_no_port_is_refused_in_a_line(holdfast: Holdfast, opened: list[str], port: str) -> None:
    ran = holdfast("ui", "--port", port)
    assert (ran.code, opened) == (2, [])
    assert f"{port} is no port; write a number from 0" in ran.err or "expected one argument" in ran.err


def test_a_namespace_and_all_of_them_are_refused(holdfast: Holdfast) -> None:
    ran = holdfast("ui", "-n", "shop", "-A")
    assert ran.code == 2
    assert "not allowed with argument" in ran.err


def test_without_a_kubeconfig_nothing_is_served(holdfast: Holdfast, opened: list[str]) -> None:
    ran = holdfast("ui", "--kubeconfig", "nowhere")
    assert (ran.code, ran.out, opened) == (2, "", [])
    assert "there is no kubeconfig at nowhere" in ran.err

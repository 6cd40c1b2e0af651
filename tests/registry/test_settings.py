"""Where the login of a schema registry comes from, what can't be one, and that none of it is shown."""

import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.errors import UserActionError, WorldChangeError
from holdfast_runtime.streams.registry.client import SchemaRegistry
from holdfast_runtime.streams.registry.settings import RegistryAddress, RegistrySettings, registry_settings
from tests.error_codes import has_code

URL = "https://registry:8081/apis/ccompat/v7"
VARIABLES = {
    "HOLDFAST_REGISTRY__AD_EVENTS__PASSWORD": "of a variable",
    "HOLDFAST_REGISTRY__AD_EVENTS__CA_CRT": "an authority",
    "HOLDFAST_REGISTRY__OTHER__PASSWORD": "no",
    "HOLDFAST_KAFKA__AD_EVENTS__USERNAME": "no",
}


def test_entries_of_files_count_unless_variables_override_them(tmp_path: Path) -> None:
    folder = tmp_path / "registry-auth"
    folder.mkdir()
    for name, text in {"username": "reader\n", "password": "of a file", "ssl.ca.pem": "of Kafka"}.items():
        (folder / name).write_text(text)
    files = registry_settings("ad-events", URL, "registry-auth", tmp_path, {})
    assert files.login == {"username": "reader", "password": "of a file"}
    settings = registry_settings("ad-events", URL, "registry-auth", tmp_path, VARIABLES)
    assert settings.login == {"username": "reader", "password": "of a variable", "ca.crt": "an authority"}
    assert "of a" not in f"{settings!r} {settings}"
    assert registry_settings("ad-events", URL, None, None, {}).login == {}


def test_a_missing_secret_is_said_with_cures(tmp_path: Path) -> None:
    with pytest.raises(
        WorldChangeError,
        match=r"registry of system ad-events: secretName is auth.*HOLDFAST_REGISTRY__AD_EVENTS__PASSWORD",
        check=has_code("SecretMissingError"),
    ):
        registry_settings("ad-events", URL, "auth", tmp_path, {})


@pytest.mark.parametrize(
    ("url", "address"),
    [
        (URL, RegistryAddress(True, "registry", 8081, "/apis/ccompat/v7")),
        ("http://registry", RegistryAddress(False, "registry", None, "")),
        ("http://[::1]:80/", RegistryAddress(False, "::1", 80, "")),
    ],
)
def test_a_url_has_host_port_and_path(url: str, address: RegistryAddress) -> None:
    assert RegistrySettings(url, "events", {}).address == address


@pytest.mark.parametrize(
    ("url", "cure"),
    [
        ("https://reader:hunter2@registry", "Put the login into username and password of a Secret"),
        ("https://hunter2@registry", "Put the login into username and password of a Secret"),
        ("https://reader:p@hunter2/x@registry", "Put the login into username and password of a Secret"),
        ("https://registry?token=hunter2", "Remove that part"),
        ("https://registry#hunter2", "Remove that part"),
        ("https://registry/hunter2 x", "Correct it"),
        ("https://registry/hunter2\n", "Correct it"),
        ("https://hunter2:port", "Correct it"),
        ("https://registry:99999/hunter2", "Correct it"),
        ("https://[hunter2", "Correct it"),
        ("ftp://hunter2", "Correct it"),
        ("hunter2:8081", "Correct it"),
        ("https:///hunter2", "Correct it"),
        ("", "Correct it"),
    ],
)
def test_urls_that_are_none_or_have_secrets_are_refused(url: str, cure: str) -> None:
    with pytest.raises(
        UserActionError, check=has_code("RegistryConfigError"), match=f"system events .*{cure}"
    ) as raised:
        RegistrySettings(url, "events", {})
    assert "hunter2" not in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    ("login", "cure"),
    [
        ({"username": "hunter2"}, "Add password"),
        ({"password": "hunter2"}, "Add username"),
        ({"username": "reader", "password": ""}, "Add password"),
        ({"tls.crt": "hunter2"}, "Add tls.key"),
        ({"tls.key": "hunter2"}, "Add tls.crt"),
        ({"username": "a:b", "password": "hunter2"}, "colon"),
    ],
)
def test_logins_of_which_a_part_is_missing_are_refused(login: Mapping[str, str], cure: str) -> None:
    with pytest.raises(UserActionError, check=has_code("RegistryConfigError"), match=cure) as raised:
        RegistrySettings(URL, "events", login)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("login", "cure"),
    [
        ({"ca.crt": "hunter2"}, r"ca\.crt has no certificate"),
        ({"ca.crt": "hünter2"}, r"ca\.crt has no certificate"),
        ({"tls.crt": "hunter2", "tls.key": "hunter2"}, r"tls\.crt and tls\.key are no certificate"),
        ({"tls.crt": "hünter2", "tls.key": "hunter2"}, r"tls\.crt and tls\.key are no certificate"),
    ],
)
def test_texts_that_are_no_certificates_are_refused_unseen(login: Mapping[str, str], cure: str) -> None:
    with pytest.raises(UserActionError, check=has_code("RegistryConfigError"), match=cure) as raised:
        SchemaRegistry(RegistrySettings(URL, "events", login))
    assert "nter2" not in str(raised.value)


def test_a_key_is_in_no_file_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[int] = []
    real = tempfile.NamedTemporaryFile

    def watched(*arguments: object, **options: object) -> object:
        file = real(*arguments, **options)  # type: ignore[call-overload]
        modes.append(stat.S_IMODE(Path(file.name).stat().st_mode))
        return file

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", watched)
    with pytest.raises(UserActionError):
        RegistrySettings(URL, "events", {"tls.crt": "x", "tls.key": "x"}).encryption()
    assert modes == [0o600]
    assert list(tmp_path.iterdir()) == []

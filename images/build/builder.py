"""The build of an image, which reaches the package index with this machine's certificates and keeps none of them.

Stages that fetch packages stand on an image that has pip's settings and certificates on top of the base. Only what they
make is copied on.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cluster import docker
from tests.cluster.components import REPOSITORY
from tests.cluster.steps import step

_CERTIFICATES = "/etc/ssl/holdfast-builder.crt"
_OF_HERE = {"find-links", "cache-dir", "target", "prefix", "user", "log", "require-virtualenv"}
"""Settings about directories of this machine."""


def ensure_builder(base: str) -> str:
    """Its name."""
    name = f"{REPOSITORY}/builder"
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    settings = pip_settings(listed.splitlines())
    certificates = _certificates(settings, os.environ)
    with TemporaryDirectory(prefix="holdfast-builder-") as made, step("builder of images") as log:
        directory = Path(made)
        if certificates is not None:
            settings["cert"] = _CERTIFICATES
        lines = [f"{name} = {value}\n" for name, value in settings.items()]
        (directory / "pip.conf").write_text("".join(["[global]\n", *lines]))
        (directory / "certificates").write_bytes(certificates or b"")
        words = f"ARG BASE\nFROM ${{BASE}}\nCOPY pip.conf /etc/pip.conf\nCOPY certificates {_CERTIFICATES}\n"
        (directory / "Dockerfile").write_text(words)
        docker.build(log, directory / "Dockerfile", directory, name, {"BASE": base})
    return name


def pip_settings(listed: Iterable[str]) -> dict[str, str]:
    """Of lines `global.NAME='VALUE'`, as pip lists them; the environment, which it calls `:env:`, counts over files."""
    pairs = [line.partition("=") for line in listed if "=" in line]
    parts = [(*name.rpartition("."), value.strip("'\"")) for name, _, value in pairs]
    settings: dict[str, str] = {}
    for origin in ("global", ":env:"):
        settings |= {name: value for section, _, name, value in parts if section == origin and name not in _OF_HERE}
    return settings


def _certificates(settings: Mapping[str, str], environment: Mapping[str, str]) -> bytes | None:
    for path in (settings.get("cert"), environment.get("SSL_CERT_FILE"), environment.get("REQUESTS_CA_BUNDLE")):
        if path and Path(path).is_file():
            return Path(path).read_bytes()
    return None

"""`holdfast plan` runs on files of others: what their Kafka settings can't do in the shell of who reviews them."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast_cli.main import main
from tests.operator.peers import FakeBroker, listening

LIBRARY = """
#include <stdio.h>
__attribute__((constructor)) static void loaded(void) { FILE *f = fopen("%s", "w"); if (f) fclose(f); }
int OSSL_provider_init(void) { return 0; }
int conf_init(void) { return 0; }
"""


def app(directory: Path, bootstrap: str, config: dict[str, str]) -> str:
    """A file with an app that reads one topic."""
    spec: dict[str, Any] = {
        "systems": [{"name": "events", "kafka": {"bootstrapServers": bootstrap, "config": config}}],
        "streams": [
            {"name": "clicks", "system": "events", "key": ["k"], "schema": "k STRING"},
            {"name": "out", "system": "events", "key": ["k"]},
        ],
        "steps": [{"name": "written", "from": ["clicks"], "to": "out"}],
    }
    tree = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": "a"}, "spec": spec}
    path = directory / "app.json"
    path.write_text(json.dumps(tree), encoding="utf-8")
    return str(path)


@pytest.fixture
def library(tmp_path: Path) -> tuple[Path, Path]:
    """A library, and the file that is there once it has been loaded."""
    compiler = shutil.which("cc")
    assert compiler is not None
    source, made, loaded = tmp_path / "mine.c", tmp_path / "mine.so", tmp_path / "loaded"
    source.write_text(LIBRARY % loaded)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(made), str(source)], check=True)
    return made, loaded


@pytest.mark.parametrize("key", ["ssl.providers", "ssl.engine.location", "plugin.library.paths"])
def test_a_library_of_a_spec_is_named_and_not_loaded(
    key: str, library: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, loaded = library
    file = app(tmp_path, "127.0.0.1:9", {"security.protocol": "ssl", key: str(made)})
    assert main(["plan", file, "--timeout", "2"]) == 2
    assert f'"{key}" would load a library' in capsys.readouterr().err
    assert main(["plan", file, "--partitions", "clicks=4", "--partitions", "out=4"]) == 1
    assert f'InvalidSpec\n  spec.systems: config of events: "{key}" would load a library' in capsys.readouterr().out
    assert not loaded.exists()


def test_no_program_of_a_spec_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tmp_path / "ran"
    for config in ({"sasl.kerberos.kinit.cmd": f"touch {ran}"}, {"sasl.kerberos.principal": f"x; touch {ran}"}):
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
        assert main(["plan", app(tmp_path, "127.0.0.1:9", {**login, **config}), "--timeout", "2"]) == 2
        assert f'"{next(iter(config))}"' in capsys.readouterr().err
    assert not ran.exists()


@pytest.mark.parametrize("key", ["ssl.ca.location", "ssl.key.location"])
def test_a_file_is_read_for_the_reviewer_not_the_spec(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certificate, login = tmp_path / "own.pem", tmp_path / "login.properties"
    certificate.write_text("no certificate")
    login.write_text(f"security.protocol=PLAINTEXT\n{key}={certificate}\n")
    with listening(FakeBroker([], {"clicks": (0, 4), "out": (0, 4)})) as broker:
        file = app(tmp_path, broker.address, {key: str(tmp_path / "not-there.pem")})
        assert main(["plan", file]) == 2
        assert f'"{key}" is for the pods of the app alone' in capsys.readouterr().err
        assert broker.connected == []
        assert main(["plan", file, "--kafka-config", str(login)]) == 0
        login.write_text(f"security.protocol=SSL\n{key}={certificate}\n")
        assert main(["plan", file, "--kafka-config", str(login)]) == 2
        assert "can't be read" in capsys.readouterr().err


def test_who_asks_in_his_own_shell_learns_what_was_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", app(tmp_path, "127.0.0.1:9", {})]) == 2
    assert "Tried: 127.0.0.1:9: [Errno 111] Connection refused. A login can be given" in capsys.readouterr().err

"""An image of one program, as Docker and containerd read it."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from tests.cluster.archive import OneProgram, write_archive


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program"
    path.write_bytes(b"\x7fELF" * 1000)
    return path


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


def test_the_archive_fits_together(tmp_path: Path, program: Path) -> None:
    image = OneProgram("holdfast.test/a:1", "/usr/local/bin/a")
    write_archive(image, program, tmp_path / "a.tar")
    with tarfile.open(tmp_path / "a.tar") as archive:
        (manifest,) = json.loads(_read(archive, "manifest.json"))
        assert manifest["RepoTags"] == ["holdfast.test/a:1"]
        text = _read(archive, manifest["Config"])
        assert manifest["Config"] == f"{hashlib.sha256(text).hexdigest()}.json"
        config = json.loads(text)
        layers = [_read(archive, name) for name in manifest["Layers"]]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    assert "Entrypoint" not in config["config"]
    with tarfile.open(fileobj=io.BytesIO(layers[0])) as layer:
        assert layer.getnames() == ["usr", "usr/local", "usr/local/bin", "usr/local/bin/a"]
        assert layer.getmember("usr/local/bin/a").mode == 0o755
        assert _read(layer, "usr/local/bin/a") == program.read_bytes()


def test_the_same_program_makes_the_same_archive(tmp_path: Path, program: Path) -> None:
    image = OneProgram("holdfast.test/a:1", "/a", entrypoint=True)
    for name in ("first", "second"):
        write_archive(image, program, tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()

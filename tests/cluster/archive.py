"""The image of one static program without a builder: a layer with one file, and two small texts about it."""

import hashlib
import io
import json
import platform
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class OneProgram:
    """An image that holds a program and nothing else."""

    tag: str
    path: str
    """Where in the image."""
    entrypoint: bool = False
    """Whether it is what the image runs; else pods say so."""


def write_archive(image: OneProgram, program: Path, target: Path) -> None:
    """As `docker save` writes it."""
    layer = _layer(image, program)
    config = json.dumps(_config(image, hashlib.sha256(layer).hexdigest())).encode()
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": [image.tag], "Layers": ["layer.tar"]}]
    with tarfile.open(target, "w") as archive:
        _add(archive, name, config)
        _add(archive, "layer.tar", layer)
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _config(image: OneProgram, layer: str) -> dict[str, object]:
    started = {"Entrypoint": [image.path]} if image.entrypoint else {}
    return {
        "os": "linux",
        "architecture": _MACHINES[platform.machine()],
        # The manifests of kubeadm call programs by name.
        "config": {"Env": [f"PATH={_PATH}"], **started},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]},
    }


def _layer(image: OneProgram, program: Path) -> bytes:
    inside = PurePosixPath(image.path.lstrip("/"))
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as layer:
        for folder in reversed(inside.parents[:-1]):
            entry = tarfile.TarInfo(str(folder))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            layer.addfile(entry)
        _add(layer, str(inside), program.read_bytes(), 0o755)
    return made.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))

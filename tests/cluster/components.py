"""The images that kubeadm asks for, and the pod network's, as archives made of programs compiled here."""

import subprocess
import tomllib
from pathlib import Path

from tests.api.programs import ETCD, KUBERNETES
from tests.cluster import docker, programs
from tests.cluster.archive import OneProgram, write_archive
from tests.cluster.base import BASE
from tests.cluster.steps import Step
from tests.go_programs import Program, built

REPOSITORY = "holdfast.test"
"""No registry: what is named so is on the nodes, or nowhere."""
NODE = Path(__file__).with_name("node")
_LABCNI = f"{REPOSITORY}/labcni:1"
_PROXY_SYSTEM = f"{REPOSITORY}/kube-proxy-system"
_PROXY_FILE = NODE / "kube-proxy.Dockerfile"


def tags(listed: str) -> dict[str, str]:
    """Name -> tag, of the lines `kubeadm config images list` prints."""
    return {line.rsplit("/", 1)[1].split(":")[0]: line for line in listed.split()}


def sandbox() -> str:
    """The image that containerd wants for every pod: it goes by its own settings, whatever kubeadm lists."""
    settings = tomllib.loads((NODE / "files/etc/containerd/config.toml").read_text())
    name: str = settings["plugins"]["io.containerd.grpc.v1.cri"]["sandbox_image"]
    return name


def prepare_kube_proxy(work: Step) -> None:
    """What its image has besides the program, which takes longer to compile."""
    docker.build(work, _PROXY_FILE, NODE, _PROXY_SYSTEM, {"BASE": BASE}, target="system")


def write_components(work: Step, folder: Path, scratch: Path) -> None:
    """Each image as an archive in the folder."""
    question = [str(built(programs.KUBEADM)), "config", "images", "list", f"--kubernetes-version={KUBERNETES}"]
    question.append(f"--image-repository={REPOSITORY}")
    answer = subprocess.run(question, capture_output=True, text=True, check=True)
    tag = tags(answer.stdout)
    for program, image in _images(tag):
        write_archive(image, built(program), folder / f"{program.name}.tar")
    (scratch / programs.PROXY.name).hardlink_to(built(programs.PROXY))
    docker.build(work, _PROXY_FILE, scratch, tag["kube-proxy"], {"BASE": BASE})
    work.run("docker", "save", "--output", folder / "kube-proxy.tar", tag["kube-proxy"])


def _images(tag: dict[str, str]) -> list[tuple[Program, OneProgram]]:
    called = [programs.API_SERVER, programs.CONTROLLER_MANAGER, programs.SCHEDULER, ETCD]
    return [
        *((program, OneProgram(tag[program.name], f"/usr/local/bin/{program.name}")) for program in called),
        (programs.COREDNS, OneProgram(tag["coredns"], "/coredns", entrypoint=True)),
        (programs.PAUSE, OneProgram(sandbox(), "/pause", entrypoint=True)),
        (programs.LABCNI, OneProgram(_LABCNI, "/labcni", entrypoint=True)),
    ]

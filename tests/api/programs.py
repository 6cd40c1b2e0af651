"""Kubernetes and its etcd, compiled in one version for all tests. Must not start anything."""

from pathlib import Path

from tests.go_programs import Program

KUBERNETES = "v1.34.4"
_HERE = Path(__file__).parent


def _stamps() -> str:
    """Without a version of its own, an API server takes itself for one so old that it has no features."""
    _, minor, _ = KUBERNETES.split(".")
    version_info = {"gitVersion": KUBERNETES, "gitMajor": "1", "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(f"-X {package}.{name}={value}" for package in packages for name, value in version_info.items())


def kubernetes(name: str) -> Program:
    """One of Kubernetes' own: `kubelet`, `kubectl` ..."""
    return Program(name, _HERE / "k8s", f"k8s.io/kubernetes/cmd/{name}", f"-s -w {_stamps()}")


ETCD = Program("etcd", _HERE / "etcd", "go.etcd.io/etcd/server/v3")

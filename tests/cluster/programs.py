"""The Go programs of the cluster: those of Kubernetes, those that stand in for images, and three of our own.

`pause` holds a pod's namespaces, `labcni` is its network, `runc-fit` asks for no more than the machine can give. Each
is compiled once; see `tests/go_programs.py`.
"""

from pathlib import Path

from tests.api.programs import ETCD, kubernetes
from tests.cluster.steps import step
from tests.go_programs import Program, built, there

_GO = Path(__file__).with_name("go")
KIND = Program("kind", _GO / "kind", "sigs.k8s.io/kind")
PAUSE = Program("pause", _GO / "pause", ".")
LABCNI = Program("labcni", _GO / "labcni", ".")
RUNC_FIT = Program("runc-fit", _GO / "runc-fit", ".")
COREDNS = Program("coredns", _GO / "coredns", ".")
API_SERVER = kubernetes("kube-apiserver")
CONTROLLER_MANAGER = kubernetes("kube-controller-manager")
SCHEDULER = kubernetes("kube-scheduler")
PROXY = kubernetes("kube-proxy")
KUBELET = kubernetes("kubelet")
KUBEADM = kubernetes("kubeadm")
KUBECTL = kubernetes("kubectl")

# The first one compiles most of what the others share.
OF_KUBERNETES = (API_SERVER, CONTROLLER_MANAGER, KUBELET, KUBEADM, KUBECTL, PROXY, SCHEDULER)
OTHERS = (RUNC_FIT, PAUSE, LABCNI, ETCD, KIND, COREDNS)


def compiled(program: Program) -> Path:
    """The program; a step of its own where it has to be compiled."""
    ready = there(program)
    if ready is not None:
        return ready
    with step(f"compile {program.name}") as work, work.writing() as log:
        return built(program, log)

"""A real API server with a real etcd, on loopback, in a directory of its own, ready in seconds.

No kubelets, schedulers or controllers: nothing collects garbage, nothing runs pods; tests play them on the real
objects. Must end only the processes it started.
"""

import base64
import json
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.api.programs import ETCD, kubernetes
from tests.go_programs import built
from tests.kafka.broker import free_ports
from tests.waiting import patience

_READY = 120.0
_END = patience(20)
ADMIN = "admin"
_GROUPS = {ADMIN: "system:masters"}
# What others than the admin ask, whatever the answer: one line when it is answered, for a watch one when it begins too.
_AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "userGroups": ["system:masters"]},
        {"level": "None", "users": ["system:anonymous", "system:apiserver"]},
        {"level": "Metadata"},
    ],
}
_NAMES = "IP:127.0.0.1,IP:10.0.0.1,DNS:localhost,DNS:kubernetes.default.svc"


class Plane:
    """`with Plane() as plane: ... plane.kubeconfig(ADMIN)`."""

    def __init__(self) -> None:
        self._etcd, self._api = built(ETCD), built(kubernetes("kube-apiserver"))
        self.directory = Path(tempfile.mkdtemp(prefix="holdfast-api-"))
        self._processes: list[subprocess.Popen[bytes]] = []
        client, peer, api = free_ports(3)
        self._etcd_urls = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
        self.port = api
        self.url = f"https://127.0.0.1:{api}"

    def __enter__(self) -> Self:
        try:
            self._certificates()
            (self.directory / "audit-policy.json").write_text(json.dumps(_AUDIT))
            self._start_etcd()
            self._start_api()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._processes):
            process.send_signal(signal.SIGKILL)
            process.wait(_END)
        shutil.rmtree(self.directory, ignore_errors=True)

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """How to reach it as this user; who is not the admin has only the rights that bindings give."""
        path = self.directory / f"{user}.kubeconfig"
        if not path.exists():
            self._certificate(user, f"/O={_GROUPS.get(user, 'people')}/CN={user}", "extendedKeyUsage=clientAuth")
            cluster = {"server": self.url, "certificate-authority-data": self._base64("ca.crt")}
            keys = {
                "client-certificate-data": self._base64(f"{user}.crt"),
                "client-key-data": self._base64(f"{user}.key"),
            }
            path.write_text(json.dumps({
                "apiVersion": "v1", "kind": "Config", "current-context": "test",
                "clusters": [{"name": "test", "cluster": cluster}],
                "users": [{"name": user, "user": keys}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            }))  # fmt: skip
        return path

    def kubeconfig_through(self, port: int, user: str) -> Path:
        """How to reach it as this user through a proxy on this port."""
        path = self.directory / f"{user}-{port}.kubeconfig"
        if not path.exists():  # an operator that starts may be reading it
            path.write_text(self.kubeconfig(user).read_text().replace(f":{self.port}", f":{port}"))
        return path

    def asked_by(self, user: str) -> list[dict[str, Any]]:
        """Every call of this user so far, as the audit log has it."""
        text = (self.directory / "audit.log").read_text()
        calls: list[dict[str, Any]] = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        return [call for call in calls if call["user"].get("username") == user]

    def restart_api(self) -> None:
        """As when it is upgraded: gone for a moment, then back with all it knew."""
        process = self._processes.pop()
        process.send_signal(signal.SIGKILL)
        process.wait(_END)
        self._start_api()

    def kill_etcd(self) -> None:
        """As by the kernel, out of memory: what it had written is there."""
        self._processes[0].kill()
        self._processes[0].wait(_END)

    def restart_etcd(self) -> None:
        """After `kill_etcd`, with its data."""
        self._start_etcd()
        self._processes[0] = self._processes.pop()

    def _start_etcd(self) -> None:
        client, peer = self._etcd_urls
        self._run(
            self._etcd,
            "--data-dir=etcd",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        self._wait(f"{client}/health", None)

    def _start_api(self) -> None:
        self._run(
            self._api,
            f"--etcd-servers={self._etcd_urls[0]}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            "--tls-cert-file=server.crt",
            "--tls-private-key-file=server.key",
            "--client-ca-file=ca.crt",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=accounts.key",
            "--service-account-signing-key-file=accounts.key",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            # As some clusters do: whoever makes something that holds up its owner's end needs a right on the owner.
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
            # As every cluster does whose nodes run pods of its own; what may be so is Pod Security's business.
            "--allow-privileged=true",
            "--audit-policy-file=audit-policy.json",
            "--audit-log-path=audit.log",
        )
        context = ssl.create_default_context(cafile=str(self.directory / "ca.crt"))
        self.kubeconfig()
        context.load_cert_chain(self.directory / f"{ADMIN}.crt", self.directory / f"{ADMIN}.key")
        self._wait(f"{self.url}/readyz", context)

    def _run(self, program: Path, *arguments: str) -> None:
        with (self.directory / f"{program.name}.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [program, *arguments],
                    cwd=self.directory,
                    env={**os.environ, "GOGC": "400"},  # a third less CPU, and some memory
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def _wait(self, url: str, context: ssl.SSLContext | None) -> None:
        deadline = time.monotonic() + patience(_READY)
        while not _answers(url, context):
            process = self._processes[-1]
            if process.poll() is not None or time.monotonic() > deadline:
                log = self.directory / f"{Path(str(process.args[0])).name}.log"  # type: ignore[index]
                message = f"{url} did not come up:\n{log.read_text()[-3000:]}"
                raise RuntimeError(message)
            time.sleep(0.05)

    def _certificates(self) -> None:
        self._key("ca")
        self._openssl("req", "-x509", "-new", "-key", "ca.key", "-subj", "/CN=test", "-days", "30", "-out", "ca.crt")
        self._certificate("server", "/CN=server", f"subjectAltName={_NAMES}\nextendedKeyUsage=serverAuth")
        self._openssl("genrsa", "-out", "accounts.key", "2048")

    def _certificate(self, name: str, subject: str, extensions: str) -> None:
        self._key(name)
        (self.directory / f"{name}.ext").write_text(f"{extensions}\n")
        self._openssl("req", "-new", "-key", f"{name}.key", "-subj", subject, "-out", f"{name}.csr")
        signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30", "-extfile", f"{name}.ext")
        self._openssl("x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.crt")

    def _key(self, name: str) -> None:
        self._openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", f"{name}.key")

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.directory, check=True, capture_output=True)  # noqa: S607

    def _base64(self, name: str) -> str:
        return base64.b64encode((self.directory / name).read_bytes()).decode()


def _answers(url: str, context: ssl.SSLContext | None) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=patience(2), context=context) as answer:  # noqa: S310 - our own address
            return bool(answer.status == 200)
    except urllib.error.HTTPError as refusal:
        refusal.close()  # or its socket is found open whenever garbage is collected, in whichever test
        return False
    except OSError:
        return False

"""A Docker daemon, also on a machine that has none, and where root may not do all that Docker asks for.

Ends only the daemon that was started here: the one that Docker's own pid file names and that works in our folder.
"""

import os
import signal
import subprocess
import time
from pathlib import Path

from tests.cluster import docker
from tests.cluster.folders import docker_data, logs
from tests.cluster.programs import RUNC_FIT, compiled
from tests.cluster.steps import ClusterError, step
from tests.waiting import patience

_PID = Path("/run/docker.pid")
_SYS_RESOURCE = 24
_START = patience(60)
_END = patience(60)
_FIT = "fit"
_NEEDED = {
    "/proc/sys/net/ipv4/ip_forward": 1,
    # Several nodes watch files; the usual 128 are too few.
    "/proc/sys/fs/inotify/max_user_instances": 1024,
    "/proc/sys/fs/inotify/max_user_watches": 524288,
}


def limited() -> bool:
    """Whether Docker's "privileged" asks for more than root has here, and so fails."""
    return lacks(Path("/proc/self/status").read_text(), _SYS_RESOURCE)


def lacks(status: str, capability: int) -> bool:
    """Whether a process with this status can never have the capability."""
    bits = next(line.split()[1] for line in status.splitlines() if line.startswith("CapBnd:"))
    return not int(bits, 16) >> capability & 1


def ensure_daemon() -> None:
    """A daemon that answers and can run nodes."""
    if docker.answers() and not Path(docker.ask("info", "--format", "{{.DockerRootDir}}")).exists():
        stop_daemon()  # its folder was deleted under it
    if not docker.answers():
        with step("docker"):
            _start()
    if limited() and docker.ask("info", "--format", "{{.DefaultRuntime}}") != _FIT:
        message = (
            "root lacks CAP_SYS_RESOURCE here, so the Docker daemon that runs can't start privileged containers;"
            " stop it, and one that can is started"
        )
        raise ClusterError(message)
    for name, least in _NEEDED.items():
        _raise_to(Path(name), least)


def stop_daemon() -> None:
    """Stop the daemon that was started here, with all its containers, if there is one."""
    pid = _ours()
    if pid is None:
        return
    with step("stop docker"):
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + _END
        while Path(f"/proc/{pid}").exists():
            if time.monotonic() > deadline:
                message = f"dockerd ({pid}) did not end within {_END:g} s"
                raise ClusterError(message)
            time.sleep(0.1)


def _raise_to(setting: Path, least: int) -> None:
    now = int(setting.read_text())
    if now >= least:
        return
    try:
        setting.write_text(str(least))
    except OSError as error:
        message = f"{setting} is {now}, and nodes need {least}: write it as root"
        raise ClusterError(message) from error


def _ours() -> int | None:
    if not _PID.exists():
        return None
    pid = int(_PID.read_text())
    line = Path(f"/proc/{pid}/cmdline")
    words = line.read_bytes().split(b"\0") if line.exists() else []
    return pid if str(docker_data()).encode() in words else None


def _start() -> None:
    command = ["dockerd", "--data-root", str(docker_data()), "--log-level", "warn"]
    if limited():
        command += ["--add-runtime", f"{_FIT}={compiled(RUNC_FIT)}", "--default-runtime", _FIT]
    with (logs() / "dockerd.log").open("ab") as log:
        daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    deadline = time.monotonic() + _START
    while not docker.answers():
        if daemon.poll() is not None or time.monotonic() > deadline:
            log_text = (logs() / "dockerd.log").read_text(errors="replace")
            message = f"dockerd did not come up:\n{log_text[-3000:]}"
            raise ClusterError(message)
        time.sleep(0.1)

"""A real schema registry for tests: Apicurio, which speaks Confluent's API, from Maven Central, on loopback.

Called by the `apicurio` fixture. Keeps all in memory, and ends only the process it started; if pytest itself is killed,
that runs on. Must not be imported by product code.

The program (150 MB) and a class data archive that nearly halves its start are made once and kept in
`~/.cache/holdfast/apicurio-<version>/`, which may be deleted at any time. `python -m tests.registry.server` makes them.
"""

import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.cached import cache, locked
from tests.waiting import patience, wait_until

POM = Path(__file__).with_name("pom.xml")
API = "/apis/ccompat/v7"
START_TIMEOUT = 60.0
ANSWER_TIMEOUT = 30.0
STOP_TIMEOUT = 30.0
FETCH_TIMEOUT = 600.0

# C1 and the serial collector, as it lives for seconds; the kernel chooses the port, and the log says which.
_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError")
_SETTINGS = ("-Dquarkus.http.host=127.0.0.1",)
_LISTENING = re.compile(r"Listening on: http://127\.0\.0\.1:(\d+)")


class RegistryFailedError(Exception):
    """The registry could not be made, did not start, or died; the message ends with what it printed."""


class Apicurio:
    """A registry without a schema: `with Apicurio() as apicurio: ... apicurio.url`."""

    def __init__(self, port: int = 0) -> None:
        self._program = program()
        self._directory = Path(tempfile.mkdtemp(prefix="holdfast-registry-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port

    def __enter__(self) -> Self:
        archive = _archive(self._program)
        return self._started(() if archive is None else (f"-XX:SharedArchiveFile={archive}",))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where its API is that is like Confluent's."""
        return f"http://127.0.0.1:{self.port}{API}"

    def request(self, method: str, path: str, body: object) -> Any:
        """Return its answer to what the client of the product does not ask."""
        with closing(
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=patience(ANSWER_TIMEOUT))
        ) as connection:
            connection.request(method, API + path, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read()
        assert response.status == 200, f"{method} {path}: {response.status} {text!r}"
        return json.loads(text)

    def stop(self, how: signal.Signals = signal.SIGKILL) -> int | None:
        """End it, and return what its process returned. Harmless when repeated."""
        process, self._process = self._process, None
        try:
            if process is None:
                return None
            process.send_signal(how)
            return process.wait(patience(STOP_TIMEOUT))
        except subprocess.TimeoutExpired:
            assert process is not None
            process.kill()
            return process.wait(patience(STOP_TIMEOUT))
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _started(self, options: tuple[str, ...]) -> Self:
        (jar,) = self._program.glob("*-runner.jar")
        with (self._directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [_java(), *_JVM, *options, *_SETTINGS, f"-Dquarkus.http.port={self.port}", "-jar", str(jar)],
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # otherwise ^C of pytest ends it first, and every test fails slowly
            )
        try:
            wait_until(self._listens, START_TIMEOUT, "the registry listens")
        except BaseException as error:
            log_end = self._log()[-4000:]
            self.stop()
            if isinstance(error, TimeoutError):
                msg = f"{error}; the end of its log:\n{log_end}"
                raise RegistryFailedError(msg) from error
            raise
        return self

    def _listens(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            msg = f"the registry died; the end of its log:\n{self._log()[-4000:]}"
            raise RegistryFailedError(msg)
        listening = _LISTENING.search(self._log())
        self.port = int(listening[1]) if listening else 0
        return listening is not None

    def _log(self) -> str:
        return (self._directory / "log").read_text(errors="replace")


class _ArchivingApicurio(Apicurio):
    """A registry that writes the classes it loaded into a file when it ends."""

    def __init__(self, target: Path) -> None:
        super().__init__()
        self._target = target

    def __enter__(self) -> Self:
        return self._started((f"-XX:ArchiveClassesAtExit={self._target}",))


def program() -> Path:
    """Return the directory of the program, fetched by Maven if it is not there yet."""
    version = re.search(r"<apicurio\.version>([^<]+)</apicurio\.version>", POM.read_text())
    assert version is not None, f"{POM} has no property apicurio.version"
    # Keyed by the pom as well, or an edited one would go on with the program of the old.
    directory = cache() / f"apicurio-{version[1]}" / f"program-{_digest(POM.read_text())}"
    with locked(cache() / f"apicurio-{version[1]}.lock"):
        if not directory.is_dir():
            partial = directory.with_suffix(".partial")  # under the lock, so what stands there is a dead one's
            shutil.rmtree(partial, ignore_errors=True)
            command = ["mvn", "-B", "-q", "-f", str(POM), "dependency:unpack-dependencies"]
            fetching = subprocess.run(
                [*command, "-DincludeScope=runtime", f"-DoutputDirectory={partial}"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=FETCH_TIMEOUT,
                check=False,
            )
            if fetching.returncode:
                msg = f"Maven did not fetch the registry:\n{fetching.stdout.decode(errors='replace')[-4000:]}"
                raise RegistryFailedError(msg)
            partial.rename(directory)
    return directory


def _archive(directory: Path) -> Path | None:
    """Return the class data archive for this JVM and this program, made by running it once; None if it can't be."""
    java = Path(_java()).resolve()
    # Another JVM would ignore the archive without a word, so each has its own.
    key = _digest(f"{java} {java.stat().st_mtime_ns} {directory.name}")
    archive = directory.with_name(f"classes-{key}.jsa")
    with locked(directory.with_name("classes.lock")):
        if not archive.exists():
            partial = archive.with_suffix(".partial")
            partial.unlink(missing_ok=True)
            with _ArchivingApicurio(partial) as apicurio:
                schema = json.dumps({"type": "record", "name": "Row", "fields": [{"name": "a", "type": "string"}]})
                apicurio.request("POST", "/subjects/warm-up/versions", {"schema": schema})
                apicurio.request("GET", "/subjects/warm-up/versions/latest", None)
                ended_well = apicurio.stop(signal.SIGTERM) == 128 + signal.SIGTERM
            if not ended_well or not partial.exists():
                return None  # only the start is slower
            partial.rename(archive)
    return archive


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else shutil.which("java") or "java"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


if __name__ == "__main__":
    _archive(program())

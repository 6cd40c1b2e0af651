"""A real browser without a window, driven by its own protocol over a web socket; Debian's package, nothing fetched.

Must end only the process it started.
"""

import base64
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import websocket

from tests.debian import ensure_program
from tests.waiting import patience, wait_until

_PACKAGE = "chromium-headless-shell"
# Tests run as root, in containers with a small /dev/shm; what is shown is our own page.
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)


class Browser:
    """`with Browser() as browser: browser.open(address)`: one tab."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-browser-"))
        self._size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._numbers = itertools.count(1)
        self._socket: Any = None
        self._session: str | None = None
        self.complaints: list[str] = []
        """Uncaught errors, and what the page's security policy refused."""

    def __enter__(self) -> Self:
        command = [ensure_program(_PACKAGE), *_OPTIONS, f"--user-data-dir={self._folder}", "about:blank"]
        # Debian's program is a script that waits for the browser, which would outlive it.
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            port_file = self._folder / "DevToolsActivePort"
            wait_until(lambda: port_file.exists() and port_file.read_text().count("\n") >= 1, 30, "the browser listens")
            port, path = port_file.read_text().split("\n")[:2]
            address = f"ws://127.0.0.1:{port}{path}"
            self._socket = websocket.create_connection(address, timeout=patience(30), suppress_origin=True)
            target = self._call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log"):
                self._call(f"{domain}.enable")
            self._call("Emulation.setDeviceMetricsOverride", **self._size)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket is not None:
            self._socket.close()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(patience(20))
        shutil.rmtree(self._folder, ignore_errors=True)

    def open(self, address: str) -> None:
        """Go there; it may not be loaded yet."""
        self._call("Page.navigate", url=address)

    def value(self, script: str) -> Any:
        """Return the value of this JavaScript in the page; of a promise what it gives."""
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def until(self, script: str, seconds: float = 20) -> None:
        """Wait until this is true in the page."""
        wait_until(lambda: self.value(f"Boolean({script})"), seconds, script)

    def look(self, scheme: str = "light", width: int | None = None, height: int | None = None) -> None:
        """Prefer light or dark; be of this size."""
        size = {**self._size, "width": width or self._size["width"], "height": height or self._size["height"]}
        self._call("Emulation.setDeviceMetricsOverride", **size)
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self._call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press and release a key."""
        code = {"Tab": 9, "Enter": 13, "Escape": 27}.get(key, ord(key.upper()[0]))
        fields = {"key": key, "windowsVirtualKeyCode": code, **({"text": "\r"} if key == "Enter" else {})}
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, **fields)

    def picture(self) -> bytes:
        """Return what is seen, as PNG."""
        return base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        session = {} if self._session is None else {"sessionId": self._session}
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters, **session}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == number:
                if "error" in message:
                    raise AssertionError(message["error"])
                return dict(message["result"])
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(message["params"]["exceptionDetails"]))
            case "Log.entryAdded" if message["params"]["entry"]["source"] in ("security", "javascript"):
                self.complaints.append(message["params"]["entry"]["text"])

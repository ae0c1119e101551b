"""A small DevTools client: open a page in headless Chromium, run scripts in it, and see what it complains about."""

import json
import shutil
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

BINARY = next((it for it in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if it), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--remote-debugging-port=0",
]


CODES = {"Tab": 9, "Enter": 13}
"""Keys that the browser itself acts on are known to it by number."""
TYPED = ("Enter",)


@dataclass
class Page:
    """An open page; `complaints` are exceptions and console messages, `requests` every address that was asked for."""

    socket: ClientConnection
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    _calls: int = 0

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._calls += 1
        self.socket.send(json.dumps({"id": self._calls, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv(timeout=30))
            if message.get("id") == self._calls:
                assert "error" not in message, message
                return message["result"]
            self._note(message)

    def run(self, script: str) -> Any:
        """The value of an expression."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r" if key == "Enter" else key} if key in TYPED or len(key) == 1 else {}
            code = {"windowsVirtualKeyCode": CODES[key]} if key in CODES else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **code, **(text if kind == "keyDown" else {}))

    def open(self, address: str) -> None:
        for domain in ("Runtime", "Log", "Network", "Page"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=address)
        for _ in range(100):
            if self.run("document.readyState") == "complete" and self.run("location.href") != "about:blank":
                return
            time.sleep(0.05)
        raise AssertionError("the page does not load")

    def _note(self, message: dict[str, Any]) -> None:
        match message.get("method"):
            case (
                "Runtime.exceptionThrown"
                | "Runtime.consoleAPICalled"
                | "Log.entryAdded"
                | "Page.javascriptDialogOpening"
            ):
                self.complaints.append(json.dumps(message["params"])[:500])
            case "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])


@contextmanager
def chromium(profile: Path):
    """A fresh browser, and a page in it."""
    assert BINARY
    command = [BINARY, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port_file = profile / "DevToolsActivePort"
        for _ in range(600):
            if port_file.exists() and port_file.read_text().strip():
                break
            time.sleep(0.05)
        port = port_file.read_text().split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
            tabs = json.load(answer)
        address = next(it["webSocketDebuggerUrl"] for it in tabs if it["type"] == "page")
        with connect(address, max_size=None) as socket:
            yield Page(socket)
    finally:
        process.terminate()
        process.wait(timeout=20)

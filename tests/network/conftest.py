"""A real headless Chromium for pages that must work in one, spoken to through its DevTools socket."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-extensions",
    "--disable-component-update", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-port=0",
)  # fmt: skip


class Socket:
    """Just enough of a WebSocket client (RFC 6455) for DevTools messages."""

    def __init__(self, url: str):
        host, _, path = url.removeprefix("ws://").partition("/")
        name, _, port = host.partition(":")
        self.stream = socket.create_connection((name, int(port)), timeout=30)
        key = base64.b64encode(os.urandom(16)).decode()
        head = f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        self.stream.sendall(f"{head}Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += self.read(1)

    def read(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            part = self.stream.recv(count - len(found))
            if not part:
                raise ConnectionError("the browser closed the socket")
            found += part
        return found

    def send(self, text: str) -> None:
        content, mask = text.encode(), os.urandom(4)
        size = len(content)
        length = bytes([0x80 | size]) if size < 126 else bytes([0x80 | 126]) + size.to_bytes(2, "big")
        if size >= 1 << 16:
            length = bytes([0x80 | 127]) + size.to_bytes(8, "big")
        self.stream.sendall(b"\x81" + length + mask + bytes(c ^ mask[k % 4] for k, c in enumerate(content)))

    def receive(self) -> str:
        content = b""
        while True:
            first, size = self.read(2)
            size &= 0x7F
            if size >= 126:
                size = int.from_bytes(self.read(2 if size == 126 else 8), "big")
            part = self.read(size)
            if first & 0x0F in (0, 1):
                content += part
                if first & 0x80:
                    return content.decode()


class Page:
    """One tab. What it logs, throws and asks for is kept in ``complaints`` and ``requests``."""

    def __init__(self, url: str):
        self.socket, self.number = Socket(url), 0
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        for domain in ("Runtime", "Log", "Network", "Page"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.receive())
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]
            self.note(message)

    def note(self, message: dict[str, Any]) -> None:
        method, facts = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(facts["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and facts["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(facts["args"]))
        elif method == "Log.entryAdded":
            self.complaints.append(facts["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(facts["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(facts["message"])

    def run(self, script: str) -> Any:
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str, seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < end, f"still not true: {script}"
            time.sleep(0.02)

    def open(self, path: Path | str, fragment: str = "") -> None:
        url = (path.as_uri() if isinstance(path, Path) else path) + fragment
        self.call("Page.navigate", url=url)
        self.until("document.documentElement?.dataset.ready === 'yes'")

    def press(self, key: str, text: str = "") -> None:
        code = {"ArrowDown": 40, "ArrowUp": 38, "Enter": 13, "Escape": 27, "Tab": 9}.get(key, 0)
        facts = {"key": key, "windowsVirtualKeyCode": code} | ({"text": text} if text else {})
        self.call("Input.dispatchKeyEvent", type="keyDown", **facts)
        self.call("Input.dispatchKeyEvent", type="keyUp", **facts)

    def write(self, text: str) -> None:
        self.call("Input.insertText", text=text)


@pytest.fixture(scope="session")
def browser() -> Iterator[int]:
    """The port on which a running Chromium listens."""
    program = next((found for found in map(shutil.which, NAMES) if found), None)
    if program is None:
        pytest.skip("no Chromium or Chrome was found on the path")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        log = Path(folder) / "DevToolsActivePort"
        process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            end = time.monotonic() + 60
            while not (log.is_file() and log.read_text().strip()):
                if process.poll() is not None or time.monotonic() > end:
                    pytest.skip("Chromium is there but does not start in this environment")
                time.sleep(0.05)
            yield int(log.read_text().split()[0])
        finally:
            os.killpg(process.pid, 15)
            process.wait(timeout=20)


@pytest.fixture
def page(browser: int) -> Iterator[Page]:
    """A fresh tab."""
    request = urllib.request.Request(f"http://127.0.0.1:{browser}/json/new?about:blank", method="PUT")
    with urllib.request.urlopen(request, timeout=30) as answer:
        facts = json.loads(answer.read())
    yield Page(facts["webSocketDebuggerUrl"])
    urllib.request.urlopen(f"http://127.0.0.1:{browser}/json/close/{facts['id']}", timeout=30).close()

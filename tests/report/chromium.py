"""A page in headless Chromium, over the DevTools protocol: its errors, its images, its width."""

import json
import shutil
import subprocess
import time
import urllib.request
from contextlib import contextmanager

import pytest

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    *("--remote-debugging-port=0", "--remote-allow-origins=*"),
]
LOOK = """JSON.stringify({
  width: document.documentElement.scrollWidth,
  images: [...document.images].map(image => [image.alt, image.complete && image.naturalWidth > 0]),
  title: document.title})"""


def find():
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("needs Chromium: on Debian, apt-get install chromium")


@contextmanager
def browser(profile):
    """The address of the DevTools of a fresh Chromium."""
    process = subprocess.Popen(
        [find(), *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        port_file = profile / "DevToolsActivePort"
        for _ in range(600):
            if port_file.exists() and port_file.read_text().strip():
                break
            time.sleep(0.1)
        else:
            pytest.skip("Chromium is installed but did not start within a minute")
        yield port_file.read_text().split()[0]
    finally:
        process.terminate()
        process.wait(timeout=20)


def look(page, port, width):
    """Loads a file at a width: what LOOK says, and every error of console and network."""
    import websocket

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=30) as reply:
        address = next(tab["webSocketDebuggerUrl"] for tab in json.load(reply) if tab["type"] == "page")
    socket = websocket.create_connection(address, timeout=120)
    events, number = [], 0

    def call(method, **params):
        nonlocal number
        number += 1
        socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while (message := json.loads(socket.recv())).get("id") != number:
            events.append(message)
        return message["result"]

    for domain in ("Page", "Runtime", "Log", "Network"):
        call(f"{domain}.enable")
    call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 800)
    call("Page.navigate", url=page.as_uri())
    while not any(event.get("method") == "Page.loadEventFired" for event in events):
        events.append(json.loads(socket.recv()))
    seen = json.loads(call("Runtime.evaluate", expression=LOOK)["result"]["value"])
    bad = ("Runtime.exceptionThrown", "Network.loadingFailed")
    errors = [e for e in events if e["method"] in bad]
    errors += [e for e in events if e["method"] == "Log.entryAdded" and e["params"]["entry"]["level"] == "error"]
    errors += [e for e in events if e["method"] == "Runtime.consoleAPICalled" and e["params"]["type"] == "error"]
    socket.close()
    return seen | {"errors": errors}

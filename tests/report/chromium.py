"""A page in headless Chromium, over the DevTools protocol: its errors, its images, its width, its accessibility."""

import json
import os
import shutil
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import end

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    *("--remote-debugging-port=0", "--remote-allow-origins=*"),
]
LOOK = """JSON.stringify({
  width: document.documentElement.scrollWidth,
  images: [...document.images].map(image => [image.alt, image.complete && image.naturalWidth > 0]),
  drawn: [...document.querySelectorAll("svg[role=img]")].map(image => image.getAttribute("aria-label")),
  title: document.title})"""
DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))"
SMALLEST = """const scale = e => e.ownerSVGElement ? Math.hypot(e.getScreenCTM().a, e.getScreenCTM().b) : 1;
JSON.stringify([...document.querySelectorAll("main *, nav *")]
  .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) && e.getClientRects().length)
  .map(e => [parseFloat(getComputedStyle(e).fontSize) * scale(e), e.textContent])
  .sort((a, b) => a[0] - b[0])[0])"""
FOLD = 'document.querySelectorAll("details").forEach(d => { d.open = false; })'
TAB_STOPS = """[...document.querySelectorAll("a[href], button, input, summary, [tabindex='0']")]
  .filter(e => e.checkVisibility()).length"""
OPEN = 'document.querySelectorAll("main details").forEach(d => { d.open = true; })'


def find():
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("needs Chromium: on Debian, apt-get install chromium")


def axe():
    """axe-core's script: $AXE_CORE, or where `npm install axe-core` puts it in the repository or in the home folder."""
    root = Path(__file__).parents[2]
    places = [os.environ.get("AXE_CORE", ""), *(f / "node_modules/axe-core/axe.min.js" for f in (root, Path.home()))]
    for place in map(Path, places):
        if place.is_file():
            return place.read_text(encoding="utf-8")
    pytest.skip("needs axe-core: npm install axe-core, or its axe.min.js in $AXE_CORE")


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
        end(process)


def _first_page(port):
    """The address of the browser's first page, which may come a while after the browser answers."""
    for _ in range(600):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=240) as reply:
            for tab in json.load(reply):
                if tab["type"] == "page":
                    return tab["webSocketDebuggerUrl"]
        time.sleep(0.1)
    raise AssertionError("Chromium answers, but has opened no page within a minute")


class Tab:
    """A tab of the browser: calls, and the events between them."""

    def __init__(self, port):
        import websocket

        self.socket = websocket.create_connection(_first_page(port), timeout=240)
        self.events, self.number = [], 0
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while (message := json.loads(self.socket.recv())).get("id") != self.number:
            self.events.append(message)
        return message["result"]

    def resize(self, width):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 800}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def open(self, page, width, scheme="light"):
        self.resize(width)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()  # those of the page before
        self.call("Page.navigate", url=page.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(json.loads(self.socket.recv()))

    def run(self, script):
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key):
        """Press a key, as a reader does."""
        code = {"Enter": 13, "Tab": 9}[key]
        facts = {"key": key, "code": key, "windowsVirtualKeyCode": code, "text": "\r" if key == "Enter" else ""}
        self.call("Input.dispatchKeyEvent", type="keyDown", **facts)
        self.call("Input.dispatchKeyEvent", type="keyUp", **facts)
        self.run(DRAWN)

    def errors(self):
        """Those of console and network."""
        bad = ("Runtime.exceptionThrown", "Network.loadingFailed")
        found = [e for e in self.events if e["method"] in bad]
        found += [
            e for e in self.events if e["method"] == "Log.entryAdded" and e["params"]["entry"]["level"] == "error"
        ]
        return found + [
            e for e in self.events if e["method"] == "Runtime.consoleAPICalled" and e["params"]["type"] == "error"
        ]


def look(page, port, *widths):
    """Loads a file at the first width and goes on to the others: what LOOK says at each, with all errors so far."""
    tab, seen = Tab(port), []
    for width in widths:
        if seen:
            tab.resize(width)
            tab.run(DRAWN)
        else:
            tab.open(page, width)
        seen.append(json.loads(tab.run(LOOK)) | {"asked": width, "errors": tab.errors()})
    tab.socket.close()
    return seen


def smallest(page, port, width):
    """The size of the smallest letters on the page with all sections open, and their text."""
    tab = Tab(port)
    tab.open(page, width)
    tab.run(OPEN)
    size, text = json.loads(tab.run(SMALLEST))
    tab.socket.close()
    return size, text


def violations(page, port, width, scheme):
    """What axe-core finds on the page with all sections open, and the smallest letters with their text."""
    script = axe()
    tab = Tab(port)
    tab.open(page, width, scheme)
    tab.run(OPEN)
    smallest = json.loads(tab.run(SMALLEST))
    tab.run(f"{script}; 0")
    found = json.loads(tab.run("axe.run().then(result => JSON.stringify(result.violations))"))
    tab.socket.close()
    return [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in found], smallest

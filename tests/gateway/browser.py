# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A headless Chromium, driven over the W3C WebDriver protocol with the standard library only."""
import base64
import json
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage", "--hide-scrollbars",
         "--disable-default-apps", "--no-default-browser-check", "--mute-audio"]
LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy from the environment does not apply to loopback


def missing():
    """Names of the programs that are missing."""
    return [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class BrowserError(Exception):
    pass


class Browser:
    """One window. Leaving the context ends the driver and its browser."""

    def __init__(self, dark=False, reduced_motion=False):
        self.profile = tempfile.mkdtemp(prefix="afterimage-browser-")
        port = free_port()
        self.driver = subprocess.Popen([shutil.which("chromedriver"), f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.base = f"http://127.0.0.1:{port}"
        self.session = None
        try:
            self.wait(lambda: self.ready(), "chromedriver", 30)
            flags = FLAGS + [f"--user-data-dir={self.profile}"] + (["--force-prefers-reduced-motion"] if reduced_motion else [])
            made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL"}, "goog:chromeOptions": {"binary": shutil.which("chromium"), "args": flags}}}})
            self.session = made["sessionId"]
            self.features(dark=dark)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.session:
            try:
                self.call("DELETE", f"/session/{self.session}")
            except (BrowserError, OSError):
                pass
        self.driver.terminate()
        self.driver.wait(timeout=20)
        shutil.rmtree(self.profile, ignore_errors=True)

    def ready(self):
        try:
            return self.call("GET", "/status")["ready"]
        except OSError:
            return False

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.base + path, method=method, headers={"Content-Type": "application/json"},
                                         data=None if body is None else json.dumps(body).encode())
        try:
            with LOCAL.open(request, timeout=60) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as problem:
            value = json.load(problem)["value"]
            raise BrowserError(f"{value['error']}: {value['message'].splitlines()[0]}") from None

    def ask(self, method, path, body=None):
        return self.call(method, f"/session/{self.session}{path}", body)

    def devtools(self, command, **parameters):
        return self.ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    # User actions.

    def open(self, address):
        self.ask("POST", "/url", {"url": address})

    def features(self, dark=False):
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def resize(self, width, height, phone=False):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone)

    def find(self, selector):
        return self.ask("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def all(self, selector):
        return [e[ELEMENT] for e in self.ask("POST", "/elements", {"using": "css selector", "value": selector})]

    def on(self, selector, act):
        """`act` on the element's id. The page may draw itself anew between the look-up and the act: then looks it up again."""
        for _ in range(20):
            element = self.find(selector)
            try:
                return act(element)
            except BrowserError as problem:
                if not str(problem).startswith("stale element reference"):
                    raise
        raise BrowserError(f"{selector} was redrawn between 20 look-ups and what was to be done with it")

    def click(self, selector):
        def act(element):
            self.run("arguments[0].scrollIntoView({block: 'center'})", {ELEMENT: element})  # not below the sticky header
            self.ask("POST", f"/element/{element}/click", {})
        self.on(selector, act)

    def type(self, selector, text):
        self.on(selector, lambda element: self.ask("POST", f"/element/{element}/value", {"text": text}))

    def press(self, *keys):
        """Sends keys to the focused element."""
        actions = [a for key in keys for a in ({"type": "keyDown", "value": key}, {"type": "keyUp", "value": key})]
        self.ask("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    # What the user sees.

    def text(self, selector):
        return self.on(selector, lambda element: self.ask("GET", f"/element/{element}/text"))

    def each(self, selector, script):
        """What `script` (a function of one element) says of every element found, all at the same instant."""
        return self.run(f"return [...document.querySelectorAll(arguments[0])].map({script})", selector)

    def visible(self, selector):
        return bool(self.all(selector)) and self.on(selector, lambda element: self.ask("GET", f"/element/{element}/displayed"))

    def run(self, script, *arguments):
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def complaints(self):
        """The page's console errors and security-policy violations since the last call."""
        return [entry["message"] for entry in self.ask("POST", "/se/log", {"type": "browser"}) if entry["level"] == "SEVERE"]

    def screenshot(self, path, full=False):
        if full:
            image = self.devtools("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        else:
            image = self.ask("GET", "/screenshot")
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(path).write_bytes(base64.b64decode(image))

    def wait(self, condition, what, limit=15):
        """Polls until `condition` holds, because a page cannot notify the test."""
        end = time.monotonic() + limit
        while True:
            found = condition()
            if found:
                return found
            if time.monotonic() > end:
                raise AssertionError(f"waited {limit} s for: {what}")
            time.sleep(0.05)

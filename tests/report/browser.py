"""A headless Chromium driven over WebDriver's own protocol: real clicks and keys, no library in between."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def why_not() -> str | None:
    """Why no browser can be started here; None when it can."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(missing)} not installed (apt-get install chromium chromium-driver)" if missing else None


class Browser:
    """One window."""

    def __init__(self, port: int, folder: Path, dark: bool) -> None:
        self._base = f"http://127.0.0.1:{port}"
        arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--window-size=1400,1000",
            f"--user-data-dir={folder}",
        ]
        if dark:
            arguments.append("--blink-settings=preferredColorScheme=0")
        options = {"goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": options}})
        self._session = f"/session/{made['sessionId']}"

    def open(self, path: Path) -> None:
        """Load a file and wait until its script has run."""
        self._call("POST", f"{self._session}/url", {"url": path.as_uri()})
        assert self.js("return document.documentElement.dataset.ready") == "yes"

    def js(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page and return what it returns."""
        return self._call("POST", f"{self._session}/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, condition: str, seconds: float = 10.0) -> None:
        """Until this expression is true in the page: a browser tells the page of a new address only afterwards."""
        script = f"""const [seconds, done] = arguments, end = performance.now() + 1000 * seconds;
            const look = () => {{
              const met = Boolean({condition});
              if (met || performance.now() > end) done(met); else setTimeout(look, 5);
            }};
            look();"""
        met = self._call("POST", f"{self._session}/execute/async", {"script": script, "args": [seconds]})
        assert met, f"after {seconds} s not yet: {condition}"

    def click(self, css: str, number: int = 0) -> None:
        """A real click: what covers the element would take it."""
        found = self._call("POST", f"{self._session}/elements", {"using": "css selector", "value": css})
        self._call("POST", f"{self._session}/element/{found[number][_ELEMENT]}/click", {})

    def keys(self, text: str) -> None:
        """Keys pressed one after the other, wherever the focus is."""
        steps = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self._call("POST", f"{self._session}/actions", {"actions": [{"type": "key", "id": "keys", "actions": steps}]})

    def complaints(self) -> list[str]:
        """What the browser's console holds: violations of the policy, errors of the script."""
        rows = self._call("POST", f"{self._session}/se/log", {"type": "browser"})
        return [row["message"] for row in rows]

    def quit(self) -> None:
        """Close the window."""
        self._call("DELETE", self._session, None)

    def _call(self, method: str, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310  # our own driver on the loopback
            self._base + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.read().decode()[:400]}") from None


@contextmanager
def browser(folder: Path, dark: bool = False) -> Iterator[Browser]:
    """A driver and its window, ended with everything they started."""
    driver = subprocess.Popen(
        ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        window = Browser(_port(driver), folder, dark)
        try:
            yield window
        finally:
            window.quit()
    finally:
        driver.terminate()
        driver.wait(10)
        if driver.stdout:
            driver.stdout.close()


def _port(driver: subprocess.Popen[str]) -> int:
    """The port the driver says it chose."""
    ends = time.monotonic() + 30
    while driver.stdout and time.monotonic() < ends:
        line = driver.stdout.readline()
        if "started successfully on port" in line:
            return int("".join(char for char in line.rsplit("port", 1)[1] if char.isdigit()))
    raise AssertionError("chromedriver did not start")

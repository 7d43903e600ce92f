"""The HTML page: self-contained, strict, right in a real browser: clicks, keys, dark, print, phone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from auditor.report import produce, write
from tests.report import samples
from tests.report.browser import Browser, browser, why_not


class Structure(HTMLParser):
    """Tags must close in order; collects what could load something."""

    VOID = ("meta", "br", "input", "link", "img")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.styles = 0
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what it is and what it points at."""
        for name, value in attrs:
            if name in ("src", "href", "data", "action", "srcset", "poster") and not str(value).startswith("#"):
                self.loads.append(f"{tag} {name}={value}")
            self.styles += name == "style"
            if name == "id":
                self.ids.append(str(value))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """The last opened closes first."""
        assert self.open and self.open.pop() == tag, tag


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of a mixed run in both languages, and the page of one server."""
    given, folder = samples.mixed(), tmp_path_factory.mktemp("html")
    return {
        "en": write(given, folder / "en", ["html"])[0],
        "zh": write(given, folder / "zh", ["html"], "zh")[0],
        "server": produce([given], {"html": folder / "server.html"}, server="gpu-02")[0],
    }


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless Chromium; CI fails without one."""
    reason = why_not()
    if reason and os.environ.get("CI") == "true":
        pytest.fail(f"the browser cannot start: {reason}")
    if reason:
        pytest.skip(reason)
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize("which", ["en", "zh", "server"])
def test_the_page_loads_nothing_and_is_well_formed(pages: dict[str, Path], which: str) -> None:
    """Every tag closes, ids are unique, no link leaves the file, no inline style or handler."""
    text = pages[which].read_text(encoding="utf-8")
    found = Structure()
    found.feed(text)
    assert found.open == [] and found.loads == [] and found.styles == 0
    assert len(set(found.ids)) == len(found.ids)
    policy = unescape(text.split('Content-Security-Policy" content="')[1].split('"')[0])
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy
    assert not re.search(r"https?://(?!\S*(?:w3\.org))\S", re.sub(r"<pre.*?</pre>", "", text, flags=re.DOTALL))


def test_languages_are_declared(pages: dict[str, Path]) -> None:
    """Screen readers and fonts follow the lang attribute."""
    assert '<html lang="en">' in pages["en"].read_text(encoding="utf-8")
    assert '<html lang="zh-Hans">' in pages["zh"].read_text(encoding="utf-8")


def test_every_page_says_that_the_data_is_synthetic(pages: dict[str, Path]) -> None:
    """The warning stands at the top of each."""
    for which, words in (("en", "SYNTHETIC DATA"), ("server", "SYNTHETIC DATA"), ("zh", "合成数据")):
        assert words in pages[which].read_text(encoding="utf-8").split("<main")[0]


def test_the_page_of_one_server_speaks_of_no_other(pages: dict[str, Path]) -> None:
    """What is sent to a provider holds one server: its findings, its letter, all its readings, its sum."""
    text = pages["server"].read_text(encoding="utf-8")
    assert not re.search(r"gpu-0[1345678]\b", text)
    assert "NVLink is off" in text and 'id="letter"' in text and "SHA-256" in text and "topology_path" in text


def rows(window: Browser, table: str) -> list[str]:
    """The first cells of the shown rows."""
    script = (
        "return [...document.querySelectorAll(arguments[0]+' tbody tr:not([hidden])')].map(r=>r.cells[0].textContent)"
    )
    found: list[str] = window.js(script, table)
    return found


def test_nothing_violates_the_policy_and_no_script_fails(window: Browser, pages: dict[str, Path]) -> None:
    """The browser's console stays empty on every page."""
    for path in pages.values():
        window.open(path)
        assert window.complaints() == []


def test_the_policy_is_in_force(window: Browser, pages: dict[str, Path]) -> None:
    """A script put into the page is refused by the browser, and so is an image."""
    window.open(pages["en"])
    window.js("""const s = document.createElement('script');
      s.textContent = 'window.owned = 1';
      document.body.append(s);
      const i = new Image(); i.src = 'data:image/gif;base64,R0lGODlhAQABAAAAACw='; document.body.append(i);""")
    assert window.js("return window.owned ?? null") is None
    assert sum("Content Security Policy" in line for line in window.complaints()) == 2


def test_a_click_sorts_and_a_second_turns_it_round(window: Browser, pages: dict[str, Path]) -> None:
    """Figures sort as figures, empty cells stay last, and the header says which way."""
    window.open(pages["en"])
    script = """const heads = [...document.querySelectorAll('#servers thead th')];
      const c = heads.findIndex((head) => head.textContent.includes('bf16'));
      return [c, [...document.querySelectorAll('#servers tbody tr')].map(r=>r.cells[c].textContent)]"""
    column = window.js(script)[0]
    for state, turned in (("ascending", False), ("descending", True)):
        window.click(f"#servers thead th:nth-child({column + 1}) button")
        _, texts = window.js(script)
        figures = [float(text.replace(",", "")) for text in texts if text]
        assert figures == sorted(figures, reverse=turned) and texts[-1] == "", state
        heading = f"#servers thead th:nth-child({column + 1})"
        assert window.js("return document.querySelector(arguments[0]).getAttribute('aria-sort')", heading) == state


def test_search_and_tiles_narrow_all_tables(window: Browser, pages: dict[str, Path]) -> None:
    """Typing after `/` searches; a verdict's tile keeps only its servers; Escape clears."""
    window.open(pages["en"])
    assert len(rows(window, "#servers")) == 8
    window.keys("/NVLink is off")
    assert rows(window, "#servers") == [] and rows(window, "#findings") == ["gpu-02"]
    window.keys("\ue00c")
    assert len(rows(window, "#servers")) == 8
    window.click(".tile.reject")
    assert rows(window, "#servers") == ["gpu-02"]
    assert window.js("return document.querySelector('#count').textContent") == "1 servers shown"
    assert window.js("return document.querySelectorAll('details:not([hidden])').length") == 1
    window.click(".tile.reject")
    assert len(rows(window, "#servers")) == 8


def test_a_link_opens_the_servers_details(window: Browser, pages: dict[str, Path]) -> None:
    """From the table to the figures in one click, charts drawn."""
    window.open(pages["en"])
    window.click("#servers tbody a")
    window.wait("document.querySelector('details').open")
    assert window.js("return document.querySelectorAll('details[open] svg.chart path.line').length") > 8


def test_it_works_by_keyboard_alone(window: Browser, pages: dict[str, Path]) -> None:
    """Tab reaches the skip link, then search; Enter on a header sorts."""
    window.open(pages["en"])
    window.keys("\ue004")
    assert window.js("return document.activeElement.className") == "skip"
    window.js("document.querySelector('#servers thead button').focus()")
    window.keys("\ue007")
    assert window.js("return document.querySelector('#servers thead th').getAttribute('aria-sort')") == "ascending"


def test_dark_and_light_keep_the_contrast(window: Browser, pages: dict[str, Path]) -> None:
    """Text on every tile and tag has a contrast of at least 4.5 in both themes."""
    window.open(pages["en"])
    script = """
      const lum = (c) => { const v = c.match(/[\\d.]+/g).slice(0, 3).map((x) => { x /= 255;
        return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; });
        return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
      return [...document.querySelectorAll('.tile, .tag, .warning, td, .lead')].map((e) => {
        let b = e;
        while (getComputedStyle(b).backgroundColor === 'rgba(0, 0, 0, 0)' && b.parentElement) b = b.parentElement;
        const [x, y] = [lum(getComputedStyle(e).color), lum(getComputedStyle(b).backgroundColor)];
        return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05); });"""
    light = window.js("return getComputedStyle(document.body).backgroundColor")
    assert min(window.js(script)) >= 4.5
    window.click("#theme")
    assert window.js("return getComputedStyle(document.body).backgroundColor") != light
    assert min(window.js(script)) >= 4.5


def test_nothing_is_wider_than_a_phone(window: Browser, pages: dict[str, Path]) -> None:
    """Wide tables scroll inside their frame; the page itself does not."""
    window.open(pages["en"])
    script = """const f = document.createElement('iframe'); f.style.width = '390px'; f.srcdoc = ''; return 0"""
    assert window.js(script) == 0
    assert window.js("return document.documentElement.scrollWidth <= window.innerWidth")


def test_the_letter_can_be_copied(window: Browser, pages: dict[str, Path]) -> None:
    """One click selects and copies the text, and says so."""
    window.open(pages["server"])
    window.click("button.copy")
    assert window.js("return document.querySelector('button.copy').textContent") == "Copied"
    assert "NVLink" in window.js("return getSelection().toString()")

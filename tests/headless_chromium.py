"""A real browser for tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE = {"width": 360, "height": 740}


@contextmanager
def headless_chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path, "expected the package chromium (make browser installs it)"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield opened
        opened.close()


@contextmanager
def watched_page(browser: Browser, **context: Any) -> Iterator[tuple[Page, list[str]]]:
    """A fresh page and the addresses it asks for; fails when its console reports an error, such as a script that was
    kept from running."""
    with browser.new_context(**context) as opened:
        page = opened.new_page()
        page.set_default_timeout(60_000)
        problems: list[str] = []
        asked: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if _is_problem(message) else None)
        page.on("request", lambda request: asked.append(request.url))
        yield page, asked
        assert problems == []


def _is_problem(message: ConsoleMessage) -> bool:
    return message.type == "error" and "Failed to load resource" not in message.text

"""A real browser without a screen: Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def opened(path: Path, width: int = 1280, height: int = 800, **context: Any) -> Iterator[Any]:
    """The page in that file; whatever it asks of the network, or complains about, fails the test."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("there is no Chromium here, and CI has to have one")
        pytest.skip("there is no Chromium here")
    from playwright.sync_api import sync_playwright

    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        page = browser.new_context(viewport={"width": width, "height": height}, **context).new_page()
        page.on(
            "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(request.url))
        page.on("request", lambda r: None if r.url.startswith(("data:", path.as_uri())) else complaints.append(r.url))
        page.goto(path.as_uri())
        yield page
        browser.close()
    assert not complaints

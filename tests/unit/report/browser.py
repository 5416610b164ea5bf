"""A headless Chromium for tests of pages: the system's, or one that playwright installed."""

import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page, Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@contextmanager
def open_browser() -> "Iterator[Browser]":
    """Starts a browser, or skips the test with the reason."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        path = find_chromium(playwright)
        if path is None:
            pytest.skip("no Chromium: `apt-get install chromium` or `playwright install chromium`")
        # Chromium refuses to run as root with its sandbox; the page is our own.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def find_chromium(playwright: "Playwright") -> str | None:
    own = playwright.chromium.executable_path
    if Path(own).exists():
        return own
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Report:
    """An open report: what it says, and what went wrong in it."""

    def __init__(self, browser: "Browser", path: Path, view: str = "", **options: Any) -> None:
        usual = {
            "viewport": {"width": 1280, "height": 1000},
            "color_scheme": "light",
            "reduced_motion": "reduce",
        }
        options = {**usual, **options}
        self.context = browser.new_context(accept_downloads=True, **options)
        self.page: Page = self.context.new_page()
        self.problems: list[str] = []
        self.requested: list[str] = []
        self.page.on("console", lambda message: self._heard(message.type, message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.page.goto(f"{path.as_uri()}{view}")
        self.page.wait_for_selector("html[data-painted]", timeout=60_000)

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.problems.append(f"{kind}: {text}")

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)
        self.settle()

    def settle(self) -> None:
        """Waits until movements have come to rest and are drawn."""
        self.page.wait_for_function(
            """() => new Promise((done) => {
                let [last, since] = [null, performance.now()];
                const look = () => {
                    const drawn = document.getElementById("blocks").dataset.drawn;
                    if (drawn !== last) [last, since] = [drawn, performance.now()];
                    if (performance.now() - since > 80) done(true);
                    else requestAnimationFrame(look);
                };
                look();
            })"""
        )

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)

    def number(self, name: str) -> float:
        """A figure that the chart leaves at its canvas: `seen` (rectangles) or `milliseconds`."""
        return float(self.page.get_attribute("#blocks", f"data-{name}") or "nan")

    def colour_at(self, x: float, y: float) -> tuple[int, int, int]:
        """Of the chart, at a point in CSS pixels from its upper left corner."""
        script = """([x, y]) => {
            const canvas = document.getElementById("blocks");
            const scale = canvas.width / canvas.clientWidth;
            const copy = document.createElement("canvas").getContext("2d", {
                willReadFrequently: true,
            });
            copy.drawImage(canvas, -x * scale, -y * scale);
            return [...copy.getImageData(0, 0, 1, 1).data];
        }"""
        red, green, blue, _ = self.page.evaluate(script, [x, y])
        return red, green, blue

    def view(self) -> dict[str, str]:
        """What the page's address says, once it has been written there."""
        self.page.wait_for_timeout(160)
        script = "Object.fromEntries(new URLSearchParams(location.hash.slice(1)))"
        found: dict[str, str] = self.page.evaluate(script)
        return found

    def window(self) -> list[float]:
        """The part that is seen: x0, x1, y0, y1; empty for all of it."""
        return [float(edge) for edge in self.view().get("at", "").split(",") if edge]

    def close(self) -> None:
        self.context.close()

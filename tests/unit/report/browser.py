"""Headless Chromium for tests of pages: that of Playwright, or of the system."""

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
    """Start a browser, or skip the test with the reason."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        path = find_chromium(playwright)
        if path is None:
            pytest.skip("no Chromium: `apt-get install chromium` or `playwright install chromium`")
        # As root, Chromium does not start with its sandbox. The pages are trusted.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def find_chromium(playwright: "Playwright") -> str | None:
    own = playwright.chromium.executable_path
    if Path(own).exists():
        return own
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Report:
    """A report in a browser, with the errors and warnings of its console."""

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
        self.page.on("console", lambda message: self._on_console(message.type, message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.page.goto(f"{path.as_uri()}{view}")
        self.page.wait_for_selector("html[data-painted]", timeout=60_000)

    def _on_console(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.problems.append(f"{kind}: {text}")

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)
        self.settle()

    def settle(self) -> None:
        """Wait until the chart was not drawn again for 80 ms."""
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
        """Return a figure of the chart: "seen" rectangles, or "milliseconds" of drawing."""
        return float(self.page.get_attribute("#blocks", f"data-{name}") or "nan")

    def colour_at(self, x: float, y: float) -> tuple[int, int, int]:
        """Return the colour of the chart at a point, in CSS pixels from its upper left corner."""
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
        """Return the view that the page has written into its address."""
        self.page.wait_for_timeout(160)
        script = "Object.fromEntries(new URLSearchParams(location.hash.slice(1)))"
        found: dict[str, str] = self.page.evaluate(script)
        return found

    def window(self) -> list[float]:
        """Return the visible part as x0, x1, y0, y1; it is empty if the whole chart is visible."""
        return [float(edge) for edge in self.view().get("at", "").split(",") if edge]

    def close(self) -> None:
        self.context.close()

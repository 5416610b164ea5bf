// Start of the page: decodes the data and builds the page.

import { decode } from "./decode.js";
import { byId } from "./dom.js";
import { Model } from "./model.js";
import { Page } from "./page.js";

async function start() {
  if (typeof DecompressionStream === "undefined") {
    byId("message").textContent =
      "This browser cannot open the data of this page. Use a browser of 2023 or later.";
    return;
  }
  try {
    const model = new Model(await decode(byId("data").textContent));
    byId("message").hidden = true;
    byId("main").hidden = false;
    if (!model.count) {
      byId("message").textContent =
        "This profile has no blocks: nothing was requested while it was recorded.";
      byId("message").hidden = false;
    }
    const page = new Page(model);
    page.start();
    // Note the time of the first drawing. A task after a frame runs when the frame is drawn.
    requestAnimationFrame(() =>
      setTimeout(() => (document.documentElement.dataset.painted = performance.now().toFixed(0))),
    );
  } catch (error) {
    byId("message").hidden = false;
    byId("message").textContent =
      `The data of this page cannot be read: ${error.message}. Write the report again.`;
    throw error;
  }
}

start();

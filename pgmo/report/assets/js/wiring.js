// Connection of the reader's input with the page's actions.

import { byId } from "./dom.js";
import { addGestures } from "./gestures.js";
import { readHash } from "./hash.js";
import { addKeys } from "./keys.js";
import { onThemeChange } from "./theme.js";

export function wire(page) {
  const { view, state } = page;
  for (const input of document.querySelectorAll("input[name=mode]"))
    input.addEventListener("change", () => page.setMode(input.value));
  byId("by").addEventListener("change", (event) => page.setBy(event.target.value));
  byId("depth").addEventListener("change", (event) => {
    state.depth = Number(event.target.value);
    state.focus.clear();
    page.look();
  });
  byId("turns").addEventListener("change", (event) => page.setTurns(event.target.checked ? 2 : 1));
  byId("persistent").addEventListener("change", (event) =>
    page.setPersistent(event.target.checked),
  );
  byId("search").addEventListener("input", (event) => page.setQuery(event.target.value));
  byId("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") page.step(page.matches, event.shiftKey ? -1 : 1);
    if (event.key === "Escape") {
      page.setQuery("");
      byId("marks").focus();
    }
  });
  byId("zoom-in").addEventListener("click", () => page.zoom(1 / 1.6));
  byId("zoom-out").addEventListener("click", () => page.zoom(1.6));
  byId("reset").addEventListener("click", () => view.goTo(view.all()));
  byId("peak").addEventListener("click", () => page.peak());
  byId("unpin").addEventListener("click", () => page.pin(-1));
  const help = byId("help");
  byId("open-help").addEventListener("click", () => help.showModal());
  help.addEventListener("click", (event) => event.target === help && help.close()); // the backdrop
  addGestures(page);
  addKeys(page);
  onThemeChange(() => page.look());
  addEventListener("hashchange", () => page.take(readHash()));
}

// Printing: canvases cannot be drawn anew at the width of the paper, so pictures stand in for them.

import { make } from "./dom.js";

// draw: draws everything at once in the theme of the day; charts: the element that holds the canvases.
export function initPrint(charts, draw) {
  let before;
  let pictures = null;
  addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light"; // as paper is
    draw();
    const stacks = [".curve canvas", ".chart canvas"].map((selector) =>
      charts.querySelectorAll(selector),
    );
    pictures = stacks.map((canvases) =>
      make("img", { class: "on-paper", src: flatten([...canvases]), alt: "" }),
    );
    charts.append(...pictures);
  });
  addEventListener("afterprint", () => {
    if (before) document.documentElement.dataset.theme = before;
    else delete document.documentElement.dataset.theme;
    pictures?.forEach((picture) => picture.remove());
    pictures = null;
    draw();
  });
}

// Canvases that lie over one another, as one picture.
function flatten(canvases) {
  const [first] = canvases;
  const flat = make("canvas", { width: first.width, height: first.height });
  for (const canvas of canvases) if (canvas.width && canvas.height) flat.getContext("2d").drawImage(canvas, 0, 0);
  return flat.toDataURL();
}

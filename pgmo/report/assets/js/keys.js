// Keyboard: each key is an action, except while the reader types or a dialog is open.

import { byId } from "./dom.js";

const MOVE = 0.12; // share of the visible range

// Keys that a focused control handles itself.
const THEIRS = {
  INPUT: /^(Arrow.*|Enter|.)$/,
  SELECT: /^(Arrow.*|Enter|.)$/,
  BUTTON: /^Enter$/,
  SUMMARY: /^Enter$/,
};

export function addKeys(page) {
  const { view, state } = page;
  const everything = Array.from({ length: page.model.count }, (_, block) => block);
  const move = (x, y) => {
    const { at } = view;
    view.moveBy(x * MOVE * (at.x1 - at.x0), y * MOVE * (at.y1 - at.y0));
  };
  const help = () => byId("help").showModal();
  const keys = {
    ArrowLeft: () => move(-1, 0),
    ArrowRight: () => move(1, 0),
    ArrowUp: () => move(0, 1),
    ArrowDown: () => move(0, -1),
    "+": () => page.zoom(1 / 1.6),
    "=": () => page.zoom(1 / 1.6),
    "-": () => page.zoom(1.6),
    0: () => view.goTo(view.all()),
    p: () => page.peak(),
    "/": () => byId("search").focus(),
    n: () => page.step(page.matches, 1),
    N: () => page.step(page.matches, -1),
    ",": () => page.step(everything, -1),
    ".": () => page.step(everything, 1),
    c: () => page.nextColouring(),
    v: () => page.setMode(state.mode === "planned" ? "placed" : "planned"),
    w: () => page.setTurns(3 - state.turns),
    m: () => page.setPersistent(!state.persistent),
    "?": help,
    h: help,
    Enter: () => state.pin >= 0 && page.go(state.pin),
    Escape: () => page.pin(-1),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]"))
      return;
    const { target } = event;
    const checkbox = target.tagName === "INPUT" && target.type === "checkbox";
    if (!checkbox && THEIRS[target.tagName]?.test(event.key)) return;
    const action = keys[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

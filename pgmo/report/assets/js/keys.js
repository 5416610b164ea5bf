// Keyboard: each key is an action, except while the reader types or a dialog is open.

const MOVE = 0.12; // share of the visible range

export function addKeys(view, actions) {
  const step = (x, y) => {
    const { at } = view;
    view.moveBy(x * MOVE * (at.x1 - at.x0), y * MOVE * (at.y1 - at.y0));
  };
  const keys = {
    ArrowLeft: () => step(-1, 0),
    ArrowRight: () => step(1, 0),
    ArrowUp: () => step(0, 1),
    ArrowDown: () => step(0, -1),
    "+": () => actions.zoom(1 / 1.6),
    "=": () => actions.zoom(1 / 1.6),
    "-": () => actions.zoom(1.6),
    0: () => view.goTo(view.all()),
    p: actions.peak,
    "/": actions.search,
    n: () => actions.next(1),
    N: () => actions.next(-1),
    ",": () => actions.neighbour(-1),
    ".": () => actions.neighbour(1),
    c: actions.colour,
    v: actions.places,
    w: actions.turns,
    m: actions.persistent,
    "?": actions.help,
    h: actions.help,
    Enter: actions.go,
    Escape: actions.letGo,
  };
  // Keys that a focused control handles itself.
  const theirs = {
    INPUT: /^(Arrow.*|Enter|.)$/,
    SELECT: /^(Arrow.*|Enter|.)$/,
    BUTTON: /^Enter$/,
    SUMMARY: /^Enter$/,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]"))
      return;
    const { target } = event;
    const checkbox = target.tagName === "INPUT" && target.type === "checkbox";
    if (!checkbox && theirs[target.tagName]?.test(event.key)) return;
    const action = keys[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

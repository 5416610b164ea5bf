// State of the view in the page's address, so that a copied address shows the same view.

export const DEFAULTS = {
  mode: "planned",
  by: "module",
  depth: 0,
  turns: 1,
  persistent: 0,
  q: "",
  pin: -1,
  tick: -1,
};

export function readHash() {
  const given = new URLSearchParams(location.hash.slice(1));
  const state = { ...DEFAULTS };
  for (const [key, standard] of Object.entries(DEFAULTS)) {
    if (!given.has(key)) continue;
    const text = given.get(key);
    const value = typeof standard === "number" ? Number(text) : text;
    if (!Number.isNaN(value)) state[key] = value;
  }
  const window = (given.get("at") || "").split(",").map(Number);
  state.at = window.length === 4 && window.every(Number.isFinite) ? window : null;
  state.focus = (given.get("only") || "").split(",").filter(Boolean).map(Number);
  return state;
}

export function writeHash(state, view) {
  const made = new URLSearchParams();
  for (const [key, standard] of Object.entries(DEFAULTS)) {
    if (state[key] !== standard) made.set(key, state[key]);
  }
  if (state.focus.size) made.set("only", [...state.focus].join(","));
  const { x0, x1, y0, y1 } = view.at;
  if (!view.whole) made.set("at", [x0, x1, y0, y1].map((value) => +value.toFixed(2)).join(","));
  const text = made.toString().replaceAll("%2C", ",");
  try {
    history.replaceState(null, "", location.href.split("#")[0] + (text && `#${text}`));
  } catch {
    // Some browsers allow no history in pages opened from a file.
  }
}

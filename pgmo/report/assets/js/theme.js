// Light and dark: what the system wants until the reader chooses; the choice is remembered.

const KEY = "pgmo-report-theme";

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

// changed: is called when the colours are others than before.
export function initTheme(changed) {
  try {
    const kept = localStorage.getItem(KEY);
    if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
  } catch {
    // Pages opened from a file may not store anything.
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}

export function toggleTheme() {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // As above: the choice holds for this visit.
  }
}

// The colours that canvases need, from the style sheet.
export function themeColours() {
  const style = getComputedStyle(document.documentElement);
  const names = [
    "plot",
    "hole",
    "ink",
    "text",
    "line",
    "faint",
    "grid",
    "accent",
    "live",
    "arena",
    "reserved",
    "expandable",
  ];
  return Object.fromEntries(
    names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
  );
}

// Light or dark theme, as the system prefers.

const PREFERS_DARK = matchMedia("(prefers-color-scheme: dark)");

export function isDark() {
  return PREFERS_DARK.matches;
}

export function onThemeChange(changed) {
  PREFERS_DARK.addEventListener("change", changed);
}

// Return the colours that canvases need, from the style sheet.
export function themeColours() {
  const style = getComputedStyle(document.documentElement);
  const names = "plot hole ink text line faint grid accent live arena reserved expandable";
  return Object.fromEntries(
    names.split(" ").map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
  );
}

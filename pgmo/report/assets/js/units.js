// Formats and parsers of sizes and counts, with the rules of pgmo/units.py.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function formatBytes(count) {
  const sign = count < 0 ? "-" : "";
  let value = Math.abs(count);
  let power = 0;
  while (value >= 1023.995 && power < UNITS.length - 1) {
    value /= 1024;
    power += 1;
  }
  if (power === 0) return `${sign}${value.toFixed(0)} B`;
  const digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return `${sign}${value.toFixed(digits)} ${UNITS[power]}`;
}

// Format a label of an axis, with up to three decimals if the step between labels needs them.
export function formatAxisBytes(count, step) {
  let power = 0;
  while (power < UNITS.length - 1 && Math.abs(count) >= 1024 ** (power + 1)) power += 1;
  const unit = 1024 ** power;
  let digits = 0;
  while (digits < 3 && ((step / unit) * 10 ** digits) % 1 > 1e-9) digits += 1;
  return `${(count / unit).toFixed(digits)} ${UNITS[power]}`;
}

export function parseBytes(number, unit) {
  const letter = (unit || "b")[0].toLowerCase();
  return Number(number) * 1024 ** Math.max(0, "bkmgtp".indexOf(letter));
}

export function formatCount(count) {
  return Math.round(count).toLocaleString("en");
}

export function formatShare(part, whole) {
  return whole ? `${((100 * part) / whole).toFixed(1)} %` : "";
}

// Return a count with its noun: "1 block", "2 blocks".
export function counted(count, noun) {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

// Return the step between axis labels: 1, 2 or 5 times a power of ten, at least 1.
export function niceStep(range, labels) {
  const rough = Math.max(range / Math.max(labels, 1), 1e-9);
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 5, 10].find((f) => f * power >= rough);
  return Math.max(1, factor * power);
}

// Return the step between labels in bytes: a power of two, so labels are round in binary units.
export function niceByteStep(range, labels) {
  return 2 ** Math.max(0, Math.ceil(Math.log2(Math.max(range / Math.max(labels, 1), 1))));
}

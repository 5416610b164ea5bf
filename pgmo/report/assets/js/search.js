// Search for blocks by words, fields and comparisons, all of which must hold.

import { PERSISTENT, SHARED, VARYING } from "./model.js";
import { parseBytes } from "./units.js";

const TOKEN =
  /(life\s*)?(>=|<=|>|<|=)\s*([\d.,]*\d)(?:\s*([kmgtp]i?b?|b)\b)?|(\w+):("[^"]*"|\S+)|"([^"]*)"|\S+/giy;
const COMPARE = {
  ">=": (a, b) => a >= b,
  "<=": (a, b) => a <= b,
  ">": (a, b) => a > b,
  "<": (a, b) => a < b,
  "=": (a, b) => a === b,
};
const KINDS = { persistent: PERSISTENT, shared: SHARED, varying: VARYING };

// Return a function that returns whether a block is found; null for an empty query.
export function compileQuery(model, query) {
  const tests = [];
  const text = query.trim();
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const match = TOKEN.exec(text);
    if (!match) break;
    tests.push(testOf(model, match));
    while (/\s/.test(text[TOKEN.lastIndex] ?? "")) TOKEN.lastIndex += 1;
  }
  return tests.length ? (block) => tests.every((test) => test(block)) : null;
}

function testOf(model, [whole, life, sign, digits, unit, field, value, quoted]) {
  const number = digits?.replaceAll(",", ""); // the page writes 1,000
  if (sign && life)
    return (block) =>
      COMPARE[sign](model.life[block] < 0 ? Infinity : model.life[block], Number(number));
  if (sign) return (block) => COMPARE[sign](model.size[block], parseBytes(number, unit));
  const wanted = (value ?? quoted ?? whole).replace(/"/g, "").toLowerCase();
  switch (field?.toLowerCase()) {
    case "module":
    case "op":
    case "phase":
    case "file":
      return byTag(model, wanted, [field.toLowerCase()]);
    case "stream":
      return (block) => model.streamName(block) === wanted;
    case "at":
      return (block) => model.copies(block, Number(wanted)) > 0;
    case "is":
      return kindTest(model, wanted);
    default:
      return byTag(model, (quoted ?? whole).toLowerCase(), ["module", "op", "phase", "file"], true);
  }
}

function kindTest(model, kind) {
  if (kind === "wrapping") return (block) => model.wraps(block);
  const bit = KINDS[kind] || 0;
  return (block) => Boolean(model.flags[block] & bit);
}

// Test each origin once, because blocks are many and origins are few.
function byTag(model, wanted, fields, stack = false) {
  const known = new Map();
  return (block) => {
    const tag = model.tag[block];
    if (!known.has(tag)) {
      const lines = fields.map((field) => model.origin(block, field));
      if (stack) lines.push(...model.stack(block));
      known.set(
        tag,
        lines.some((line) => line.toLowerCase().includes(wanted)),
      );
    }
    return known.get(tag);
  };
}

// Colours of blocks: each of the nine largest groups has its own colour; other groups are grey.

import { formatBytes } from "./units.js";

export const OTHERS = 9; // index of the grey group

// Paul Tol's "muted" scheme for colour-blind readers, with lighter colours on a dark ground.
const LIGHT = "#44aa99 #cc6677 #332288 #ddcc77 #88ccee #117733 #aa4499 #999933 #882255".split(" ");
const DARK = "#44aa99 #cc6677 #7d74d6 #ddcc77 #88ccee #3a9d5c #c06bb2 #999933 #b04a7e".split(" ");
// Colours from light to dark, because sizes are ordered: a part of "viridis".
const SIZES = "#fde725 #b5de2b #6ece58 #35b779 #1f9e89 #26828e #31688e #3e4989 #482878".split(" ");
const GREY = { light: "#b9bcc1", dark: "#6b7078" };
const PHASES = ["forward", "backward", "optimizer", "recompute"];

export function palette(by, dark) {
  const colours = by === "size" ? (dark ? [...SIZES].reverse() : SIZES) : dark ? DARK : LIGHT;
  return [...colours, dark ? GREY.dark : GREY.light];
}

// Return the first levels of a dotted path.
function cutModule(path, depth) {
  return path.split(".").slice(0, depth).join(".");
}

// Return the depth of module paths, and the first level whose groups all have at most half of the
// byte-ticks.
export function moduleDepths(model) {
  const area = new Map();
  let deepest = 1;
  for (let block = 0; block < model.count; block += 1) {
    const path = model.origin(block, "module");
    area.set(path, (area.get(path) || 0) + weight(model, block));
  }
  for (const path of area.keys()) deepest = Math.max(deepest, path.split(".").length);
  deepest = Math.min(deepest, 8);
  let best = 1;
  while (best < deepest && largestShare(area, best) > 0.5) best += 1;
  return { deepest, best };
}

function largestShare(area, depth) {
  const sums = new Map();
  let whole = 0;
  for (const [path, one] of area) {
    const key = cutModule(path, depth);
    sums.set(key, (sums.get(key) || 0) + one);
    whole += one;
  }
  return Math.max(0, ...sums.values()) / (whole || 1);
}

// Return {of: group of each block; names, area (byte-ticks), number of blocks, and bytes at the
// peak of each group}.
export function groupBlocks(model, by, depth) {
  if (by === "size") return groupBySize(model);
  const keyOf = keys(model, by, depth);
  const area = new Map();
  for (let block = 0; block < model.count; block += 1) {
    const key = keyOf(block);
    area.set(key, (area.get(key) || 0) + weight(model, block));
  }
  let ranked = [...area.keys()]
    .filter((key) => key !== "")
    .sort((a, b) => area.get(b) - area.get(a));
  if (by === "phase")
    ranked = [...PHASES.filter((p) => area.has(p)), ...ranked.filter((p) => !PHASES.includes(p))];
  const names = ranked.slice(0, OTHERS);
  const number = new Map(names.map((name, index) => [name, index]));
  const of = new Uint8Array(model.count);
  for (let block = 0; block < model.count; block += 1)
    of[block] = number.get(keyOf(block)) ?? OTHERS;
  const rest = ranked.length - names.length;
  names[OTHERS] = rest > 0 ? `${rest} others${area.has("") ? " and unknown" : ""}` : "unknown";
  return finish(model, of, names);
}

function keys(model, by, depth) {
  if (by === "stream")
    return (block) => (model.streamName(block) === "" ? "" : `stream ${model.streamName(block)}`);
  if (by !== "module") return (block) => model.group(block, by);
  const cut = model.header.tags.map((tag) => cutModule(model.header.strings[tag[0]], depth));
  return (block) => (model.tag[block] < 0 ? model.group(block, "module") : cut[model.tag[block]]);
}

// Group by powers of four, or of two if these suffice, down from the largest size. All smaller
// blocks form one group.
function groupBySize(model) {
  const power = (block) => Math.floor(Math.log2(model.size[block]));
  let [low, high] = [Infinity, 0];
  for (let block = 0; block < model.count; block += 1) {
    low = Math.min(low, power(block));
    high = Math.max(high, power(block));
  }
  const step = high - low < OTHERS ? 1 : 2;
  const base = high + 1 - step * OTHERS; // power at which the lowest group begins
  const of = new Uint8Array(model.count);
  for (let block = 0; block < model.count; block += 1)
    of[block] = Math.max(0, Math.floor((power(block) - base) / step));
  const names = Array.from({ length: OTHERS }, (_, i) => {
    const from = formatBytes(2 ** Math.max(0, base + i * step));
    return i === 0 ? `below ${formatBytes(2 ** (base + step))}` : `${from} and more`;
  });
  names[OTHERS] = "";
  return finish(model, of, names);
}

function weight(model, block) {
  return model.size[block] * (model.life[block] < 0 ? model.ticks : model.life[block]);
}

function finish(model, of, names) {
  const area = new Float64Array(OTHERS + 1);
  const blocks = new Int32Array(OTHERS + 1);
  const atPeak = new Float64Array(OTHERS + 1);
  for (let block = 0; block < model.count; block += 1) {
    area[of[block]] += weight(model, block);
    blocks[of[block]] += 1;
  }
  for (const { block, bytes } of model.liveAt(model.peakTick)) atPeak[of[block]] += bytes;
  return { of, names, area, blocks, atPeak };
}

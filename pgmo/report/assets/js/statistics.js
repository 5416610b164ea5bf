// The statistics dialog: figures, advice in plain words, who holds memory at a tick.

import { byId, make, makeTable } from "./dom.js";
import { cutModule } from "./groups.js";
import { counted, formatBytes, formatCount, formatShare } from "./units.js";

const ROWS = 12;

export function fillStatistics(model, tick, depth) {
  const { header } = model;
  const told = header.told || {};
  byId("statistics")
    .querySelector(".content")
    .replaceChildren(
      ...[
        adviceSection(told.hints || []),
        leakSection(told.leaks),
        figureSection(model, told),
        ...holderSections(model, tick, depth),
        idleSection(told.idle || []),
        streamSection(told.streams || []),
        timeSection(told.times || []),
      ].filter(Boolean),
    );
}

function section(title, ...children) {
  return make("section", {}, make("h3", {}, title), ...children);
}

function adviceSection(hints) {
  if (!hints.length) return null;
  return section(
    "What would help",
    ...hints.map(({ title, text }) =>
      make("div", { class: "hint" }, make("b", {}, title), make("p", {}, text)),
    ),
  );
}

function leakSection(leaks) {
  if (!leaks) return null;
  if (!leaks.found.length) {
    const said = leaks.judged ? "Nothing accumulates" : "Not known";
    return section("Leaks", make("p", {}, `${said} (${leaks.basis}).`));
  }
  const rows = leaks.found.map((leak) => [
    formatBytes(leak.growth),
    leak.confidence,
    leak.origin,
    leak.why,
  ]);
  const columns = [
    { title: `per ${leaks.per}`, number: true },
    { title: "" },
    { title: "origin" },
    { title: "seen" },
  ];
  return section("Leaks", makeTable(columns, rows), make("p", {}, `Of ${leaks.basis}.`));
}

function figureSection(model, told) {
  const { header } = model;
  const gap = header.maxLoad ? header.arena / header.maxLoad - 1 : 0;
  const rows = [
    ["Max load: no arena is smaller", formatBytes(header.maxLoad)],
    [
      "Arena of the plan",
      `${formatBytes(header.arena)}, ${(100 * gap).toFixed(2)} % above the max load`,
    ],
    ["Solver", header.solver + (header.optimal ? ", proved the smallest" : "")],
    ["Alignment", formatBytes(header.alignment)],
  ];
  if (model.moment) rows.splice(0, rows.length, ["Allocated", formatBytes(told.moment.size)]);
  for (const [name, one] of Object.entries(told.reserved || {})) {
    const settings = name === "default" ? "by default" : `with ${name} segments`;
    const failed =
      one.failed === null ? "" : `; out of memory at request ${formatCount(one.failed)}`;
    rows.push([
      `PyTorch would reserve ${settings}`,
      `${formatBytes(one.peak)}, ${(100 * one.fragmentation).toFixed(1)} % in no block${failed}`,
    ]);
  }
  const seen = told.fragmentation;
  if (seen) {
    rows.push(["PyTorch reserved (seen in the trace)", formatBytes(seen.peak_reserved)]);
    rows.push([
      "Holes at its peak",
      `${formatCount(seen.holes)}, the largest ${formatBytes(seen.largest_hole)}, together ${formatBytes(seen.hole_bytes)}`,
    ]);
  }
  rows.push(["Blocks", `${formatCount(model.blocks)} in ${counted(model.ticks, "request")}`]);
  if (model.circular && told.residents?.size)
    rows.push([
      "There all the time, on top",
      `${formatBytes(told.residents.size)} in ${counted(told.residents.blocks, "block")}`,
    ]);
  const drift = told.drift;
  if (drift?.steps?.length)
    rows.push([
      "Iterations that differ from the one before",
      `${drift.changed} of ${drift.steps.length}`,
    ]);
  return section("Figures", makeTable([{ title: "" }, { title: "" }], rows, { class: "figures" }));
}

function holderSections(model, tick, depth) {
  if (!model.ticks) return [];
  const live = model.liveAt(tick);
  const sum = live.reduce((bytes, one) => bytes + one.bytes, 0);
  const when = tick === model.peakTick ? "the peak" : `tick ${formatCount(tick)}`;
  const kinds = [
    ["phase", (block) => model.group(block, "phase")],
    ["module", (block) => cutModule(model.group(block, "module"), depth)],
    ["operator", (block) => model.group(block, "op")],
    ["line of code", (block) => model.group(block, "file")],
  ];
  return kinds
    .map(([title, keyOf]) => {
      const rows = ranked(live, keyOf, sum);
      const named = rows.some(([, , , name]) => name !== "unknown" && name !== "before recording");
      const columns = [
        { title: "bytes", number: true },
        { title: "share", number: true },
        { title: "blocks", number: true },
        { title },
      ];
      return named
        ? section(`Who holds memory at ${when}, by ${title}`, makeTable(columns, rows))
        : null;
    })
    .filter(Boolean);
}

// Rows that add up to the sum: those beyond the first make one.
function ranked(live, keyOf, sum) {
  const sums = new Map();
  for (const { block, copies, bytes } of live) {
    const key = keyOf(block) || "unknown";
    const entry = sums.get(key) || [0, 0];
    sums.set(key, [entry[0] + bytes, entry[1] + copies]);
  }
  const sorted = [...sums].sort((a, b) => b[1][0] - a[1][0]);
  const rest = sorted.splice(sorted.length > ROWS ? ROWS - 1 : ROWS);
  if (rest.length) {
    const total = rest.reduce(([b, c], [, [bytes, copies]]) => [b + bytes, c + copies], [0, 0]);
    sorted.push([`${rest.length} others`, total]);
  }
  return sorted.map(([name, [bytes, copies]]) => [
    formatBytes(bytes),
    formatShare(bytes, sum),
    formatCount(copies),
    name,
  ]);
}

function idleSection(idle) {
  if (!idle.length) return null;
  const rows = idle.map((one) => [
    formatBytes(one.size),
    `${(100 * one.share).toFixed(0)} %`,
    one.origin,
    [one.born, one.dies].filter(Boolean).join(" to "),
  ]);
  const columns = [
    { title: "bytes", number: true },
    { title: "of the iteration", number: true },
    { title: "origin" },
    { title: "lives from" },
  ];
  return section(
    "Large blocks that live long around the peak",
    make("p", { class: "quiet-text" }, "What recomputation or offloading could take away."),
    makeTable(columns, rows),
  );
}

function streamSection(streams) {
  if (streams.length < 2) return null;
  const rows = streams.map((use) => [
    String(use.stream),
    formatCount(use.requests),
    formatBytes(use.max_load),
  ]);
  return section(
    "Streams",
    makeTable(
      [
        { title: "stream" },
        { title: "requests", number: true },
        { title: "most at once", number: true },
      ],
      rows,
    ),
  );
}

function timeSection(times) {
  if (!times.length) return null;
  const keys = Object.keys(times[0]);
  const rows = times.map((one) =>
    keys.map((key) => (typeof one[key] === "number" ? formatCount(one[key]) : String(one[key]))),
  );
  return section(
    "Time between requests (µs), by operator",
    makeTable(
      keys.map((key) => ({ title: key, number: typeof times[0][key] === "number" })),
      rows,
    ),
  );
}

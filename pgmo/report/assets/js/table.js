// The table dialog: all blocks as CSV, the first thousand of any order on the page.

import { byId, clipped, make } from "./dom.js";
import { counted, formatBytes, formatCount } from "./units.js";

const SHOWN = 1000;

const COLUMNS = [
  { title: "request", value: (model, block) => model.start[block], number: true },
  { title: "size", value: (model, block) => model.size[block], number: true, show: formatBytes },
  {
    title: "lifetime",
    value: (model, block) => (model.life[block] < 0 ? Infinity : model.life[block]),
    number: true,
  },
  {
    title: "offset",
    value: (model, block) => model.offset[block],
    number: true,
    show: (v) => (v < 0 ? "" : formatCount(v)),
  },
  { title: "phase", value: (model, block) => model.origin(block, "phase") },
  { title: "operator", value: (model, block) => model.origin(block, "op") },
  { title: "module", value: (model, block) => model.origin(block, "module") },
  { title: "line", value: (model, block) => model.origin(block, "file") },
];

const order = { column: 1, down: true };

// found: a test of blocks or null; go(block): a row was chosen.
export function fillTable(model, found, go) {
  const rows = [];
  for (let block = 0; block < model.blocks; block += 1)
    if (!found || found(block)) rows.push(block);
  sortRows(model, rows);
  // Columns that say nothing take no room; their numbers stay, for the order.
  const useful = COLUMNS.map(({ value, number }, i) => [
    i,
    number || rows.some((block) => value(model, block) !== ""),
  ])
    .filter(([, says]) => says)
    .map(([i]) => i);
  const heads = useful
    .map((i) => [COLUMNS[i], i])
    .map(([{ title, number }, i]) => {
      const sorted = i === order.column ? (order.down ? "descending" : "ascending") : "none";
      const sort = () => {
        order.down = i === order.column ? !order.down : Boolean(number);
        order.column = i;
        fillTable(model, found, go);
        byId("table").querySelectorAll("th button")[useful.indexOf(i)].focus();
      };
      return make(
        "th",
        { "aria-sort": sorted, class: number ? "number" : "" },
        make("button", { type: "button", onclick: sort }, title),
      );
    });
  const body = rows.slice(0, SHOWN).map((block) => {
    const cells = useful.map((i) => {
      const { value, show, number } = COLUMNS[i];
      const text = shown(value(model, block), show, number);
      const content =
        i === 0
          ? make(
              "button",
              { type: "button", title: "Show this block", onclick: () => go(block) },
              text,
            )
          : clipped(text);
      return make("td", { class: number ? "number" : "" }, content);
    });
    return make("tr", {}, ...cells);
  });
  const what = found ? `${counted(rows.length, "block")} found` : counted(rows.length, "block");
  const cut = rows.length > SHOWN ? `, the first ${formatCount(SHOWN)} shown` : "";
  byId("table")
    .querySelector(".content")
    .replaceChildren(
      make(
        "p",
        { class: "actions" },
        `${what}${cut}. `,
        make(
          "button",
          { type: "button", id: "download", onclick: () => download(model, rows) },
          "Download CSV",
        ),
      ),
      make(
        "div",
        { class: "scroll" },
        make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...body)),
      ),
    );
}

function shown(value, show, number) {
  if (show) return show(value);
  if (!number) return value;
  return value === Infinity ? "stays" : formatCount(value);
}

function sortRows(model, rows) {
  const { value, number } = COLUMNS[order.column];
  const keys = new Map(rows.map((block) => [block, value(model, block)]));
  const sign = order.down ? -1 : 1;
  rows.sort((a, b) => {
    const [x, y] = [keys.get(a), keys.get(b)];
    const compared = number ? (x === y ? 0 : x < y ? -1 : 1) : x.localeCompare(y);
    return sign * compared || a - b;
  });
}

export function csvOf(model, rows) {
  const quote = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = ["id,lower,upper,size,offset,alternate,stream,phase,operator,module,line"];
  for (const block of rows) {
    const end = model.end(block);
    const numbers = [
      block,
      model.start[block],
      end === Infinity ? -1 : end,
      model.size[block],
      model.offset[block],
      model.alternate[block],
    ];
    const texts = ["phase", "op", "module", "file"].map((field) =>
      quote(model.origin(block, field)),
    );
    lines.push([...numbers, model.streamName(block), ...texts].join(","));
  }
  return `${lines.join("\n")}\n`;
}

function download(model, rows) {
  const url = URL.createObjectURL(new Blob([csvOf(model, rows)], { type: "text/csv" }));
  make("a", { href: url, download: "blocks.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

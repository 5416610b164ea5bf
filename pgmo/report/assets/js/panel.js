// Panel next to the chart: colours, the selected block, and the blocks alive at a tick.

import { byId, make } from "./dom.js";
import { EARLIER, PERSISTENT, RESIDENT, SHARED, VARYING } from "./model.js";
import { counted, formatBytes, formatCount, formatShare } from "./units.js";

const LISTED = 60; // maximum number of listed blocks

// Return the properties of a block, as rows of name and value.
export function factsOf(model, block) {
  const end = model.end(block);
  const at = (tick) =>
    tick > model.ticks
      ? `${formatCount(tick % model.ticks)} of a later iteration`
      : formatCount(tick);
  const flags = model.flags[block];
  const kinds = [
    model.wraps(block) ? "lives into the next iteration" : "",
    flags & VARYING ? "its size varies" : "",
    flags & SHARED ? "used on several streams, not planned" : "",
    flags & PERSISTENT ? "never freed" : "",
    flags & (EARLIER | RESIDENT) ? "there before the recording began" : "",
  ];
  const offsets = [model.offset[block], model.alternate[block]].filter((offset) => offset >= 0);
  const rows = [
    ["Size", `${formatBytes(model.size[block])} (${formatCount(model.size[block])} B)`],
    ["Requested", flags & (EARLIER | RESIDENT) ? "" : `tick ${formatCount(model.start[block])}`],
    ["Freed", end === Infinity ? "never" : `before tick ${at(end)}`],
    ["Lifetime", end === Infinity ? "" : counted(model.life[block], "tick")],
    ["Module", model.origin(block, "module")],
    ["Operator", model.origin(block, "op")],
    ["Phase", model.origin(block, "phase")],
    ["Line", model.origin(block, "file")],
    ["Offset", offsets.map((offset) => formatCount(offset)).join(" and, in turn, ")],
    ["Segment", segmentOf(model, block)],
    ["Stream", model.header.streams.length > 1 ? model.streamName(block) : ""],
    ["Kind", kinds.filter(Boolean).join("; ")],
  ];
  return rows.filter(([, value]) => value !== "");
}

function segmentOf(model, block) {
  if (!model.hasPlaces || model.position[block] < 0) return "";
  const y = model.position[block];
  const segment = model.segments.find((one) => one.y <= y && y < one.y + one.size);
  return segment ? `0x${segment.address.toString(16)}, ${formatBytes(segment.size)}` : "";
}

export function showTip(tip, model, block, place) {
  const origin = ["module", "op", "phase"].map((field) => model.origin(block, field));
  const end = model.end(block);
  const life =
    end === Infinity
      ? "never freed"
      : `ticks ${formatCount(model.start[block])} to ${formatCount(end)}`;
  const offset = model.offset[block];
  tip.replaceChildren(
    make("b", {}, formatBytes(model.size[block])),
    make("span", {}, life + (offset >= 0 ? `, offset ${formatBytes(offset)}` : "")),
    ...origin.filter(Boolean).map((line) => make("span", {}, line)),
    ...[model.origin(block, "file")]
      .filter(Boolean)
      .map((line) => make("span", { class: "code" }, line)),
  );
  tip.hidden = false;
  const { offsetWidth, offsetHeight } = tip;
  const host = tip.parentElement;
  const x =
    place.x + 16 + offsetWidth > host.clientWidth ? place.x - offsetWidth - 12 : place.x + 16;
  const y = Math.min(place.y + 14, host.clientHeight - offsetHeight - 4);
  tip.style.transform = `translate(${Math.max(2, x)}px, ${Math.max(2, y)}px)`;
}

export function showSelected(page, block) {
  const { model } = page;
  byId("selected").hidden = block < 0;
  if (block < 0) return;
  const facts = factsOf(model, block).flatMap(([name, value]) => [
    make("dt", {}, name),
    make("dd", {}, value),
  ]);
  const stack = model.stack(block);
  const module = model.origin(block, "module");
  const op = model.origin(block, "op");
  byId("details").replaceChildren(
    make("dl", { class: "facts" }, ...facts),
    ...(stack.length
      ? [
          make(
            "details",
            { open: stack.length < 12 },
            make("summary", {}, "Stack, innermost first"),
            make("ol", { class: "stack" }, ...stack.map((line) => make("li", {}, line))),
          ),
        ]
      : []),
    make(
      "p",
      { class: "actions" },
      button("Go there", () => page.go(block)),
      module ? button("This module", () => page.setQuery(`module:${quoted(module)}`)) : null,
      op ? button("This operator", () => page.setQuery(`op:${quoted(op)}`)) : null,
    ),
  );
}

function button(text, onclick) {
  return make("button", { type: "button", onclick }, text);
}

function quoted(text) {
  return /\s/.test(text) ? `"${text}"` : text;
}

// Return a button with a coloured square, a name and a size.
function entry(colour, what, bytes, attributes) {
  return make(
    "button",
    { type: "button", ...attributes },
    square(colour),
    make("span", { class: "what" }, what),
    make("span", { class: "number" }, formatBytes(bytes)),
  );
}

function square(colour, kind = "dot") {
  const dot = make("i", { class: kind });
  dot.style.background = colour;
  return dot;
}

// pick(block): called when a row is clicked.
export function showLive(model, tick, groups, colours, pick) {
  const live = model.ticks ? model.liveAt(tick) : [];
  const sum = live.reduce((bytes, one) => bytes + one.bytes, 0);
  const count = live.reduce((copies, one) => copies + one.copies, 0);
  const when = tick === model.peakTick ? "the peak, tick" : "tick";
  byId("live-title").textContent = model.moment
    ? "Allocated"
    : `Live at ${when} ${formatCount(tick)}`;
  const share = model.moment ? "" : `, ${formatShare(sum, model.arena)} of the arena`;
  byId("live-sum").textContent = `${counted(count, "block")}, ${formatBytes(sum)}${share}`;
  byId("live").replaceChildren(
    ...live.slice(0, LISTED).map(({ block, bytes, copies }) => {
      const what = model.name(block) + (copies > 1 ? ` (${copies} at once)` : "");
      const attributes = { title: what, onclick: () => pick(block) };
      return make("li", {}, entry(colours[groups.of[block]], what, bytes, attributes));
    }),
    ...(live.length > LISTED
      ? [make("li", { class: "quiet-text" }, `and ${counted(live.length - LISTED, "smaller one")}`)]
      : []),
  );
}

// toggle(group): called when an entry is clicked.
export function showLegend(groups, colours, { focus, by, mode, moment }, theme, toggle) {
  const what = moment ? "Bytes allocated" : "Bytes at the peak";
  const order = groups.names
    .map((name, i) => [name, i])
    .filter(([name, i]) => name && groups.blocks[i]);
  byId("legend").replaceChildren(
    ...order.map(([name, i]) => {
      const short = by === "file" ? name.split("/").pop() : name;
      const bytes = `${formatBytes(groups.atPeak[i])} ${moment ? "allocated" : "at the peak"}`;
      const title = `${name}: ${counted(groups.blocks[i], "block")}, ${bytes}. Click to show only these`;
      return entry(colours[i], short, groups.atPeak[i], {
        title,
        "aria-pressed": String(focus.has(i)),
        class: focus.size && !focus.has(i) ? "off" : "",
        onclick: () => toggle(i),
      });
    }),
    ...(mode === "placed" ? [reservedKey(theme)] : []),
    make("p", { class: "quiet-text" }, `${what}. Click to show only some.`),
  );
}

function reservedKey(theme) {
  const what = make("span", { class: "what" }, "reserved, in no block");
  return make("div", { class: "key" }, square(theme.hole, "dot framed"), what);
}

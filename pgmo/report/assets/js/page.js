// State of the page, and the reactions to its changes.

import { Chart } from "./chart.js";
import { Curve } from "./curve.js";
import { byId, make } from "./dom.js";
import { groupBlocks, moduleDepths, palette } from "./groups.js";
import { DEFAULTS, readHash, writeHash } from "./hash.js";
import { showLegend, showLive, showSelected, showTip } from "./panel.js";
import { compileQuery } from "./search.js";
import { layOut, rectanglesOfBlock } from "./space.js";
import { isDark, themeColours } from "./theme.js";
import { View } from "./view.js";
import { wire } from "./wiring.js";
import { counted, formatBytes, formatCount } from "./units.js";

const COLOURINGS = ["module", "phase", "op", "file", "size", "stream"];

export class Page {
  constructor(model) {
    this.model = model;
    this.depths = moduleDepths(model);
    this.state = { ...DEFAULTS, focus: new Set() };
    this.view = new View(() => this.moved());
    this.chart = new Chart(model, this.view, { base: byId("blocks"), over: byId("marks") });
    this.curve = new Curve(this, byId("curve"), byId("curve-keys"));
    this.found = null;
    this.matches = [];
  }

  start() {
    this.fillControls();
    wire(this);
    this.take(readHash());
    new ResizeObserver(() => {
      this.chart.resize();
      this.curve.resize();
    }).observe(byId("chart"));
  }

  get tick() {
    return this.state.tick >= 0 && this.state.tick < this.model.ticks
      ? this.state.tick
      : this.model.peakTick;
  }

  get depth() {
    return this.state.depth || this.depths.best;
  }

  // Fill the controls; hide or disable those without a choice.
  fillControls() {
    const { model } = this;
    for (let depth = 1; depth <= this.depths.deepest; depth += 1)
      byId("depth").append(make("option", { value: depth }, String(depth)));
    byId("turns-field").hidden = !model.circular;
    byId("persistent-field").hidden = model.moment || !model.flags.some((flags) => flags & 6);
    byId("curve").parentElement.hidden = model.moment;
    byId("peak").hidden = model.moment;
    byId("mode").hidden = model.moment;
    const known = (field) => model.header.tags.some((tag) => model.header.strings[tag[field]]);
    const off = {
      module: !known(0),
      op: !known(1),
      phase: !known(2),
      file: !known(3),
      stream: model.header.streams.length < 2,
    };
    for (const option of byId("by").options) option.disabled = Boolean(off[option.value]);
    this.first = COLOURINGS.find((by) => !off[by]) || "size";
    if (!model.header.placesSeen)
      byId("placed-label").querySelector("span").textContent = "As PyTorch would";
    if (model.hasPlaces) return;
    byId("placed-label").title =
      "This profile has no addresses. For addresses, make the report from a memory snapshot";
    byId("placed-label").querySelector("input").disabled = true;
  }

  // Apply a state from the page's address.
  take(given) {
    const { state, model } = this;
    Object.assign(state, given, { focus: new Set(given.focus) });
    if (model.moment && model.hasPlaces) state.mode = "placed";
    if (state.mode !== "placed" || !model.hasPlaces) state.mode = "planned";
    const option = [...byId("by").options].find(({ value }) => value === state.by);
    if (!option || option.disabled) state.by = this.first;
    state.turns = state.turns === 2 && model.circular ? 2 : 1;
    if (!Number.isInteger(state.pin) || state.pin >= model.count) state.pin = -1;
    state.pin = Math.max(-1, state.pin);
    if (!Number.isInteger(state.tick)) state.tick = -1;
    if (!(state.depth >= 1 && state.depth <= this.depths.deepest)) state.depth = 0;
    state.depth = Math.floor(state.depth);
    byId("search").value = state.q;
    this.layOut(false);
    this.look();
    if (given.at) {
      const [x0, x1, y0, y1] = given.at;
      this.view.set({ x0, x1, y0, y1 });
    }
  }

  layOut(keep) {
    const { state, model, view, chart } = this;
    document.querySelector(`input[name=mode][value=${state.mode}]`).checked = true;
    byId("turns").checked = state.turns === 2;
    byId("persistent").checked = Boolean(state.persistent);
    byId("persistent").disabled = state.mode === "placed"; // drawn in any case
    chart.space = layOut(model, state.mode, state.turns, Boolean(state.persistent));
    view.setSpace(chart.space.span, chart.space.height, keep);
    const what = state.mode === "placed" ? "as PyTorch placed them" : "as planned";
    chart.over.setAttribute(
      "aria-label",
      `${counted(model.blocks, "block")} by lifetime and address, ${what}`,
    );
  }

  // Apply the theme, the grouping, the search and the filter, which determine the colours.
  look() {
    const { state, model } = this;
    this.theme = themeColours();
    this.colours = palette(state.by, isDark());
    byId("by").value = state.by;
    byId("depth").value = String(this.depth);
    byId("depth-field").hidden = state.by !== "module";
    this.groups = groupBlocks(model, state.by, this.depth);
    for (const group of state.focus) if (!this.groups.blocks[group]) state.focus.delete(group);
    const names = { op: "operator", file: "line of code" };
    byId("legend-title").textContent = `By ${names[state.by] || state.by}`;
    this.curve.build(state.turns, this.theme, this.view.at);
    this.shade();
    this.details();
  }

  shade() {
    const { state, model, groups } = this;
    this.found = compileQuery(model, state.q);
    const shade = new Uint8Array(model.count);
    this.matches = [];
    let [bytes, peak] = [0, 0];
    for (let block = 0; block < model.count; block += 1) {
      const hit = !this.found || this.found(block);
      if (this.found && hit) {
        this.matches.push(block);
        bytes += model.size[block];
        if (model.planned(block)) peak += model.copies(block, model.peakTick) * model.taken(block);
      }
      const shown = hit && (!state.focus.size || state.focus.has(groups.of[block]));
      shade[block] = groups.of[block] + (shown ? 0 : 16);
    }
    byId("found").textContent = this.found
      ? `${counted(this.matches.length, "block")}, ${formatBytes(bytes)}` +
        (model.moment ? "" : `; ${formatBytes(peak)} at the peak`)
      : "";
    this.chart.setColours(shade, this.colours, this.theme);
    const shown = { ...state, moment: model.moment };
    showLegend(groups, this.colours, shown, this.theme, (group) => {
      if (!state.focus.delete(group)) state.focus.add(group);
      this.shade();
      byId("legend")
        .querySelectorAll("button")
        [
          [...groups.names.keys()].filter((i) => groups.names[i] && groups.blocks[i]).indexOf(group)
        ]?.focus();
    });
    this.moved();
  }

  details() {
    const { state, model, chart } = this;
    chart.marks.pinned = state.pin;
    chart.marks.tick = this.tick;
    this.curve.mark(this.tick);
    showSelected(this, state.pin);
    showLive(model, this.tick, this.groups, this.colours, (block) => this.pin(block));
    chart.redrawMarks();
    this.remember();
  }

  // Draw the chart and the curve again after a change of the view.
  moved() {
    if (!this.chart.space || !this.theme) return;
    this.chart.redraw();
    this.remember();
    if (this.following) return;
    this.following = true; // several events may come before a frame is drawn
    requestAnimationFrame(() => {
      this.following = false;
      this.curve.setRange(this.view.at.x0, this.view.at.x1);
    });
  }

  remember() {
    clearTimeout(this.later);
    this.later = setTimeout(() => writeHash(this.state, this.view), 100);
  }

  cursor(tick) {
    this.chart.marks.cursor = tick;
    this.chart.redrawMarks();
  }

  // Zoom without a pointer: around the selected block if it is visible, else around the peak, else
  // around the middle.
  zoom(factor) {
    const { at } = this.view;
    const { space } = this.chart;
    const inside = (x, y) => x > at.x0 && x < at.x1 && y > at.y0 && y < at.y1;
    let [x, y] = [(at.x0 + at.x1) / 2, (at.y0 + at.y1) / 2];
    if (inside(this.model.peakTick + 0.5, y)) x = this.model.peakTick + 0.5;
    const [pinned] = rectanglesOfBlock(space, this.state.pin);
    if (pinned !== undefined) {
      const middle = [
        (space.x0[pinned] + space.x1[pinned]) / 2,
        (space.y0[pinned] + space.y1[pinned]) / 2,
      ];
      if (inside(...middle)) [x, y] = middle;
    }
    this.view.zoomAt(x, y, factor, factor, true);
  }

  hover(block, tick, event) {
    if (this.chart.marks.hover !== block) {
      this.chart.marks.hover = block;
      this.chart.redrawMarks();
    }
    this.chart.over.classList.toggle("on-block", block >= 0);
    if (block < 0) byId("tip").hidden = true;
    else showTip(byId("tip"), this.model, block, { x: event.offsetX, y: event.offsetY });
  }

  leave() {
    byId("tip").hidden = true;
    if (this.chart.marks.hover < 0) return;
    this.chart.marks.hover = -1;
    this.chart.redrawMarks();
  }

  pin(block) {
    const { model } = this;
    this.state.pin = block;
    this.details();
    if (block >= 0)
      byId("say").textContent = `${model.name(block)}, ${formatBytes(model.size[block])}`;
  }

  // React to a click on the chart.
  pick(block, tick) {
    this.pin(block === this.state.pin ? -1 : block);
    if (this.model.ticks) this.setTick(tick % this.model.ticks);
  }

  setTick(tick) {
    this.state.tick = Math.max(0, Math.min(tick, this.model.ticks - 1));
    this.details();
    byId("say").textContent =
      `Tick ${formatCount(this.tick)}: ${formatBytes(this.model.load[this.tick] || 0)} live`;
  }

  setQuery(query) {
    byId("search").value = query;
    this.state.q = query;
    this.shade();
  }

  // Move the view so that a block is in the middle and large.
  go(block) {
    const [first] = rectanglesOfBlock(this.chart.space, block);
    if (first === undefined) return;
    const { x0, x1, y0, y1 } = this.chart.space;
    const wide = Math.max((x1[first] - x0[first]) * 2, 40);
    const high = Math.max((y1[first] - y0[first]) * 4, this.view.height / 200);
    const [x, y] = [(x0[first] + x1[first]) / 2, (y0[first] + y1[first]) / 2];
    this.view.goTo({ x0: x - wide / 2, x1: x + wide / 2, y0: y - high / 2, y1: y + high / 2 });
  }

  peak() {
    const wide = Math.max(60, this.model.ticks / 12);
    const middle = this.model.peakTick + 0.5;
    this.state.tick = -1;
    this.view.goTo({ ...this.view.all(), x0: middle - wide / 2, x1: middle + wide / 2 });
    this.details();
  }

  step(among, by) {
    if (!among.length) return;
    const at = among.indexOf(this.state.pin);
    const next = at < 0 ? (by > 0 ? 0 : among.length - 1) : (at + by + among.length) % among.length;
    this.pin(among[next]);
    this.go(among[next]);
  }

  setMode(mode) {
    if (mode === "placed" && !this.model.hasPlaces) return;
    this.state.mode = mode;
    this.layOut(true);
    this.shade();
  }

  setTurns(turns) {
    if (!this.model.circular) return;
    this.state.turns = turns;
    this.layOut(false);
    this.look();
  }

  setPersistent(on) {
    this.state.persistent = on ? 1 : 0;
    this.layOut(true);
    this.moved();
  }

  setBy(by) {
    this.state.by = by;
    this.state.focus.clear();
    this.look();
  }

  nextColouring() {
    const open = [...byId("by").options]
      .filter(({ disabled }) => !disabled)
      .map(({ value }) => value);
    this.setBy(open[(open.indexOf(this.state.by) + 1) % open.length]);
  }
}

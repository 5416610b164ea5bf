// Live bytes over time, drawn by uPlot above the chart, with the chart's time axis.

import { LEFT, RIGHT } from "./chart.js";
import { thinLines } from "./thin.js";
import { formatAxisBytes, formatBytes, niceByteStep } from "./units.js";

const HEIGHT = 132;

export class Curve {
  constructor(page, host, keys) {
    this.page = page;
    this.model = page.model;
    this.host = host;
    this.keys = keys;
    this.plot = null;
  }

  // Draw the curve again, for example after a change of the theme or of the number of turns.
  build(turns, theme, range) {
    this.plot?.destroy();
    const { model, host } = this;
    const beyond = model.header.hasPersistent ? ", without persistent blocks" : "";
    const lines = [
      { name: "live", colour: theme.live, line: model.load, fill: `${theme.live}30` },
      ...model.reserved.map(({ name, line }, i) => ({
        name: name === "default" ? `PyTorch reserves${beyond}` : `with ${name} segments`,
        colour: i ? theme.expandable : theme.reserved,
        line,
      })),
    ];
    const levels = [
      { name: "max load", colour: theme.text, bytes: model.header.maxLoad, dash: [2, 3] },
      { name: "arena", colour: theme.arena, bytes: model.arena, dash: [] },
    ];
    this.time = { ticks: model.turn, span: model.turn * turns };
    this.lines = lines.map(({ line }) => line);
    const top = Math.max(model.arena, ...lines.map(({ line }) => largest(line)), 1) * 1.06;
    this.plot = new uPlot(
      {
        width: host.clientWidth,
        height: HEIGHT,
        padding: [6, RIGHT, 6, 0],
        legend: { show: false },
        scales: { x: { time: false, range: () => this.range }, y: { range: [0, top] } },
        axes: [
          { show: false },
          {
            size: LEFT,
            gap: 4,
            font: "11px system-ui, sans-serif",
            stroke: theme.text,
            grid: { stroke: theme.grid, width: 1 },
            ticks: { show: false },
            splits: () => steps(top, niceByteStep(top, 4)),
            values: (_, splits) =>
              splits.map((bytes) => formatAxisBytes(bytes, splits[1] || bytes)),
          },
        ],
        series: [
          {},
          ...lines.map(({ colour, fill }) => ({
            stroke: colour,
            fill,
            width: 1.25,
            points: { show: false },
            paths: uPlot.paths.stepped({ align: 1 }),
          })),
        ],
        cursor: {
          y: false,
          points: { show: false },
          drag: { x: true, y: false, setScale: false },
          bind: { dblclick: () => null },
        },
        hooks: {
          draw: [(plot) => drawLevels(plot, levels), (plot) => this.drawMarks(plot, theme)],
          setSelect: [(plot) => this.selected(plot)],
          setCursor: [(plot) => this.moved(plot)],
        },
      },
      thinLines(this.lines, this.time, 0, 1, 1),
      host,
    );
    this.plot.over.addEventListener("click", (event) => this.clicked(event));
    this.plot.over.addEventListener("dblclick", () => this.page.view.goTo(this.page.view.all()));
    this.setRange(range.x0, range.x1);
    this.showKeys([...lines.map((one) => ({ ...one, bytes: largest(one.line) })), ...levels]);
  }

  setRange(x0, x1) {
    this.range = [x0, x1];
    if (!this.plot) return;
    const pixels = Math.max(100, this.host.clientWidth - LEFT - RIGHT);
    this.plot.batch(() => {
      this.plot.setData(thinLines(this.lines, this.time, x0, x1, pixels), false);
      this.plot.setScale("x", { min: x0, max: x1 });
    });
  }

  // Mark the tick that the reader has chosen.
  mark(tick) {
    this.tick = tick;
    this.plot?.redraw(false);
  }

  drawMarks({ ctx, bbox, valToPos }, theme) {
    const { model } = this;
    if (!model.ticks) return;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.lineWidth = devicePixelRatio;
    for (let turn = 0; turn < this.range[1]; turn += model.turn) {
      if (this.tick >= 0 && this.tick !== model.peakTick) {
        const x = Math.round(valToPos(this.tick + 0.5 + turn, "x", true)) + 0.5;
        ctx.strokeStyle = theme.accent;
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
      }
      ctx.fillStyle = theme.live;
      ctx.beginPath();
      const peak = [
        valToPos(model.peakTick + 0.5 + turn, "x", true),
        valToPos(model.peakBytes, "y", true),
      ];
      ctx.arc(...peak, 3 * devicePixelRatio, 0, 7);
      ctx.fill();
    }
    ctx.restore();
  }

  resize() {
    this.plot?.setSize({ width: this.host.clientWidth, height: HEIGHT });
  }

  selected(plot) {
    const { left, width } = plot.select;
    if (width < 4) return;
    this.dragged = true;
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    const [x0, x1] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    this.page.view.goTo({ ...this.page.view.at, x0, x1 });
  }

  moved(plot) {
    const { left } = plot.cursor;
    this.page.cursor(left < 0 ? null : plot.posToVal(left, "x"));
  }

  clicked(event) {
    if (this.dragged) {
      this.dragged = false; // the end of a drag arrives as a click, too
      return;
    }
    const box = this.plot.over.getBoundingClientRect();
    const tick = Math.floor(this.plot.posToVal(event.clientX - box.left, "x"));
    this.page.setTick(tick % this.model.ticks);
  }

  showKeys(entries) {
    this.keys.replaceChildren(
      ...entries.map(({ name, colour, bytes, dash }) => {
        const key = document.createElement("span");
        const sample = document.createElement("i");
        sample.style.borderTop = `2px ${dash?.length ? "dotted" : "solid"} ${colour}`;
        key.append(
          sample,
          `${name} `,
          Object.assign(document.createElement("b"), { textContent: formatBytes(bytes) }),
        );
        return key;
      }),
    );
  }
}

function largest(line) {
  return line.reduce((most, bytes) => Math.max(most, bytes), 0);
}

function steps(top, step) {
  const made = [];
  for (let bytes = 0; bytes <= top; bytes += step) made.push(bytes);
  return made;
}

function drawLevels({ ctx, bbox, valToPos }, levels) {
  ctx.save();
  for (const { colour, bytes, dash } of levels) {
    const y = Math.round(valToPos(bytes, "y", true)) + 0.5;
    ctx.strokeStyle = colour;
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash(dash.map((length) => length * devicePixelRatio));
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
  }
  ctx.restore();
}

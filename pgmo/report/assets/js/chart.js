// Chart of the blocks as rectangles, with marks above them. gestures.js handles its input.

import { Raster, isLight, mixColours, packColour } from "./raster.js";
import { rectanglesOfBlock } from "./space.js";
import { formatAxisBytes, formatBytes, formatCount, niceByteStep, niceStep } from "./units.js";

export const LEFT = 68; // width of the labels of addresses; the curve above has the same margin
export const RIGHT = 10;
const BOTTOM = 26;
const LABELS = 250; // maximum number of names; more would be noise
const CLOSEST = 8; // minimum mean height of segments, in pixels, at which edges are drawn
const FONT = "11px system-ui, sans-serif";

export class Chart {
  constructor(model, view, elements) {
    this.model = model;
    this.view = view;
    this.base = elements.base;
    this.over = elements.over;
    this.raster = new Raster();
    this.space = null;
    this.marks = { hover: -1, pinned: -1, tick: -1, box: null, cursor: null };
    this.colours = null; // {shade, hexes, theme}
    this.frame = 0; // the animation frame that will draw, 0 for none
    this.drawn = 0;
  }

  // Set the size in CSS pixels and in screen pixels. To limit the time, a CSS pixel has at most two
  // screen pixels per axis. A new size makes the canvas blank, so draw at once: when the page is
  // printed, no further frame may follow.
  resize() {
    const { clientWidth, clientHeight } = this.base.parentElement;
    this.scale = Math.min(2, window.devicePixelRatio || 1);
    this.width = clientWidth;
    this.height = clientHeight;
    for (const canvas of [this.base, this.over]) {
      canvas.width = Math.round(clientWidth * this.scale);
      canvas.height = Math.round(clientHeight * this.scale);
    }
    this.plot = {
      left: LEFT,
      top: 0,
      width: Math.max(1, clientWidth - LEFT - RIGHT),
      height: Math.max(1, clientHeight - BOTTOM),
    };
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.draw();
  }

  redraw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  redrawMarks() {
    if (!this.frame && this.space && this.colours) this.drawMarks();
  }

  toScreen(x, y) {
    const { at } = this.view;
    const { left, top, width, height } = this.plot;
    return [
      left + ((x - at.x0) / (at.x1 - at.x0)) * width,
      top + height - ((y - at.y0) / (at.y1 - at.y0)) * height,
    ];
  }

  toSpace(px, py) {
    const { at } = this.view;
    const { left, top, width, height } = this.plot;
    return [
      at.x0 + ((px - left) / width) * (at.x1 - at.x0),
      at.y0 + ((top + height - py) / height) * (at.y1 - at.y0),
    ];
  }

  // shade: number of each block's group, plus 16 if the block is dimmed; hexes: groups' colours.
  setColours(shade, hexes, theme) {
    const ground = this.space.mode === "placed" ? theme.hole : theme.plot;
    const dimmed = hexes.map((hex) => mixColours(hex, ground, 0.16));
    const all = [...hexes];
    dimmed.forEach((hex, i) => (all[16 + i] = hex));
    const fills = new Uint32Array(32);
    const edges = new Uint32Array(32);
    all.forEach((hex, i) => {
      fills[i] = packColour(hex);
      edges[i] = packColour(mixColours(hex, ground, 0.55));
    });
    this.colours = {
      shade,
      hexes: all,
      fills,
      edges,
      ground: packColour(ground),
      beyond: packColour(theme.plot),
      theme,
    };
    this.redraw();
  }

  draw() {
    if (!this.space || !this.colours || !this.width) return;
    const begin = performance.now();
    const { plot, scale, raster } = this;
    raster.resize(Math.round(plot.width * scale), Math.round(plot.height * scale));
    raster.draw(this.space, this.view.at, this.colours);
    const context = this.base.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.base.width, this.base.height);
    context.putImageData(raster.image, Math.round(plot.left * scale), Math.round(plot.top * scale));
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.font = FONT;
    this.drawSegments(context);
    this.drawNames(context);
    this.drawAxes(context);
    if (!raster.seen && this.space.count) this.drawNothing(context);
    this.drawMarks();
    this.drawn += 1;
    this.base.dataset.seen = raster.seen;
    this.base.dataset.drawn = this.drawn;
    this.base.dataset.milliseconds = (performance.now() - begin).toFixed(1);
  }

  clipped(context, paint) {
    const { left, top, width, height } = this.plot;
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    paint();
    context.restore();
  }

  drawSegments(context) {
    const { left, width, height } = this.plot;
    const { line, faint } = this.colours.theme;
    const { at } = this.view;
    const across = (y) => {
      const py = Math.round(this.toScreen(0, y)[1]) + 0.5;
      context.moveTo(left, py);
      context.lineTo(left + width, py);
    };
    const seen = this.space.segments.filter(({ y, size }) => y + size > at.y0 && y < at.y1);
    this.clipped(context, () => {
      context.strokeStyle = faint;
      context.beginPath();
      // More lines would hide the blocks between them.
      for (const { y, size } of seen.length * CLOSEST < height ? seen : []) {
        across(y);
        across(y + size);
      }
      context.stroke();
      context.strokeStyle = line;
      context.setLineDash([4, 3]);
      context.beginPath();
      if (this.space.arenaTop) across(this.space.arenaTop);
      for (let { turn } = this.model; turn < this.space.span; turn += this.model.turn) {
        const px = Math.round(this.toScreen(turn, 0)[0]) + 0.5;
        context.moveTo(px, 0);
        context.lineTo(px, height);
      }
      context.stroke();
    });
  }

  // Draw the names of blocks that have room for their name, largest block first.
  drawNames(context) {
    const { space, colours, view, plot } = this;
    const { at } = view;
    const room = [];
    for (let i = 0; i < space.count; i += 1) {
      if (
        space.x1[i] <= at.x0 ||
        space.x0[i] >= at.x1 ||
        space.y1[i] <= at.y0 ||
        space.y0[i] >= at.y1
      )
        continue;
      const width =
        (Math.min(space.x1[i], at.x1) - Math.max(space.x0[i], at.x0)) *
        (plot.width / (at.x1 - at.x0));
      const height =
        (Math.min(space.y1[i], at.y1) - Math.max(space.y0[i], at.y0)) *
        (plot.height / (at.y1 - at.y0));
      if (width > 54 && height > 15) room.push([width * height, i, width, height]);
    }
    room.sort((a, b) => b[0] - a[0]);
    this.clipped(context, () => {
      context.textBaseline = "top";
      for (const [, i, width, height] of room.slice(0, LABELS)) {
        const block = space.block[i];
        const shade = colours.shade[block];
        if (shade >= 16) continue;
        const [x, y] = this.toScreen(Math.max(space.x0[i], at.x0), Math.min(space.y1[i], at.y1));
        context.fillStyle = isLight(colours.hexes[shade]) ? "#14171ce0" : "#ffffffe8";
        const name = this.model.name(block);
        context.fillText(fitted(context, name, width - 10), x + 5, y + 4);
        if (height > 32)
          context.fillText(
            fitted(context, formatBytes(this.model.size[block]), width - 10),
            x + 5,
            y + 18,
          );
      }
    });
  }

  drawAxes(context) {
    const { left, top, width, height } = this.plot;
    const { at } = this.view;
    const { text, line } = this.colours.theme;
    context.fillStyle = text;
    context.strokeStyle = line;
    context.lineWidth = 1;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.beginPath();
    const bytes = niceByteStep(at.y1 - at.y0, height / 44);
    const lowest = Math.ceil(at.y0 / bytes) * bytes;
    // Zoomed far in, adjacent labels would be equal. So labels show distances to the lowest.
    const near = formatAxisBytes(lowest, bytes) === formatAxisBytes(lowest + bytes, bytes);
    for (let y = lowest; y <= at.y1; y += bytes) {
      const py = Math.round(this.toScreen(0, y)[1]) + 0.5;
      if (py < top + 6 && y > at.y0) continue;
      context.moveTo(left - 4, py);
      context.lineTo(left, py);
      const label =
        near && y > lowest ? `+${formatAxisBytes(y - lowest, bytes)}` : formatAxisBytes(y, bytes);
      context.fillText(label, left - 8, Math.min(py, top + height - 6));
    }
    context.textAlign = "center";
    context.textBaseline = "top";
    const ticks = niceStep(at.x1 - at.x0, width / 90);
    const room = left + width - context.measureText("tick").width - 8; // the axis' name is there
    for (let turn = 0; turn < this.space.span; turn += this.model.turn) {
      const low = Math.max(0, Math.ceil((at.x0 - turn) / ticks) * ticks);
      const high = Math.min(
        at.x1 - turn,
        this.model.turn - (turn + this.model.turn < this.space.span ? ticks / 2 : 0),
      );
      for (let x = low; x <= high; x += ticks) {
        const px = Math.round(this.toScreen(x + turn, 0)[0]) + 0.5;
        context.moveTo(px, top + height);
        context.lineTo(px, top + height + 4);
        const label = formatCount(x);
        if (px + context.measureText(label).width / 2 < room)
          context.fillText(label, px, top + height + 7);
      }
    }
    context.textAlign = "right";
    if (!this.model.moment) context.fillText("tick", left + width, top + height + 7);
    context.moveTo(left - 0.5, top);
    context.lineTo(left - 0.5, top + height + 0.5);
    context.lineTo(left + width, top + height + 0.5);
    context.stroke();
    context.textAlign = "left";
  }

  drawNothing(context) {
    context.fillStyle = this.colours.theme.text;
    context.textAlign = "center";
    context.fillText(
      "No blocks here. Press 0 to see all of them.",
      this.plot.left + this.plot.width / 2,
      this.plot.height / 2,
    );
    context.textAlign = "left";
  }

  drawMarks() {
    const context = this.over.getContext("2d");
    const { marks, plot, scale, model } = this;
    const { ink, accent, text } = this.colours.theme;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.font = FONT;
    this.clipped(context, () => {
      for (let turn = 0; turn < this.space.span; turn += model.turn) {
        if (model.ticks && !model.moment)
          this.verticalLine(context, model.peakTick + turn + 0.5, text, [2, 3], turn ? "" : "peak");
      }
      if (marks.cursor !== null) this.verticalLine(context, marks.cursor, text, []);
      if (marks.tick >= 0 && marks.tick !== model.peakTick)
        this.verticalLine(context, marks.tick + 0.5, accent, [], `tick ${formatCount(marks.tick)}`);
      if (marks.hover >= 0) this.outline(context, marks.hover, ink, 1.5);
      if (marks.pinned >= 0) this.outline(context, marks.pinned, accent, 2.5);
      if (marks.box) {
        const { x, y, width, height } = marks.box;
        context.strokeStyle = accent;
        context.fillStyle = `${accent}22`;
        context.fillRect(x, y, width, height);
        context.strokeRect(x, y, width, height);
      }
    });
  }

  verticalLine(context, tick, colour, dash, label = "") {
    const x = Math.round(this.toScreen(tick, 0)[0]) + 0.5;
    if (x < this.plot.left || x > this.plot.left + this.plot.width) return;
    context.strokeStyle = colour;
    context.lineWidth = 1;
    context.setLineDash(dash);
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, this.plot.height);
    context.stroke();
    context.setLineDash([]);
    if (!label) return;
    const width = context.measureText(label).width + 10;
    const at = Math.min(x + 3, this.plot.left + this.plot.width - width);
    context.fillStyle = this.colours.theme.plot;
    context.fillRect(at, 3, width, 16);
    context.fillStyle = colour;
    context.textBaseline = "top";
    context.fillText(label, at + 5, 6);
  }

  outline(context, block, colour, width) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    for (const i of rectanglesOfBlock(this.space, block)) {
      const [x0, y0] = this.toScreen(this.space.x0[i], this.space.y1[i]);
      const [x1, y1] = this.toScreen(this.space.x1[i], this.space.y0[i]);
      context.strokeRect(x0, y0, Math.max(2, x1 - x0), Math.max(2, y1 - y0));
    }
  }
}

function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low > 2 ? `${text.slice(0, low)}…` : "";
}

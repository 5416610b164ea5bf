// The strip below the chart: all of the time at once, and which part of it is seen.

import { LEFT, RIGHT } from "./chart.js";

export class Overview {
  constructor(model, view, canvas) {
    this.model = model;
    this.view = view;
    this.canvas = canvas;
    let held = false;
    canvas.addEventListener("pointerdown", (event) => {
      held = true;
      canvas.setPointerCapture(event.pointerId);
      this.move(event);
    });
    canvas.addEventListener("pointermove", (event) => held && this.move(event));
    for (const end of ["pointerup", "pointercancel"])
      canvas.addEventListener(end, () => (held = false));
  }

  // The middle of what is seen goes where the pointer is.
  move(event) {
    const { at, span } = this.view;
    const x = ((event.offsetX - LEFT) / this.inner()) * span;
    const half = (at.x1 - at.x0) / 2;
    this.view.set({ ...at, x0: x - half, x1: x + half });
  }

  inner() {
    return Math.max(1, this.canvas.clientWidth - LEFT - RIGHT);
  }

  // The most that is live in each pixel's stretch of time.
  skyline(pixels) {
    const { model, view } = this;
    const key = `${pixels} ${view.span}`;
    if (this.known !== key) {
      this.known = key;
      this.tops = Array.from({ length: Math.ceil(pixels) }, (_, px) => {
        const from = Math.floor((px / pixels) * view.span);
        const to = Math.max(from + 1, Math.floor(((px + 1) / pixels) * view.span));
        let top = 0;
        for (let tick = from; tick < to; tick += 1)
          top = Math.max(top, model.load[tick % model.turn] || 0);
        return top;
      });
    }
    return this.tops;
  }

  draw(theme) {
    const { canvas, model, view } = this;
    const scale = Math.min(2, devicePixelRatio || 1);
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width) return;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    const inner = this.inner();
    context.fillStyle = theme.faint;
    const most = model.peakBytes || 1;
    this.skyline(inner).forEach((top, px) => {
      const tall = (top / most) * (height - 2);
      context.fillRect(LEFT + px, height - tall, 1, tall);
    });
    if (view.at.x0 === 0 && view.at.x1 === view.span) return; // all of it is seen
    const x0 = LEFT + (view.at.x0 / view.span) * inner;
    const x1 = LEFT + (view.at.x1 / view.span) * inner;
    context.fillStyle = `${theme.accent}26`;
    context.fillRect(x0, 0, x1 - x0, height);
    context.strokeStyle = theme.accent;
    context.strokeRect(x0 + 0.5, 0.5, Math.max(1, x1 - x0 - 1), height - 1);
  }
}

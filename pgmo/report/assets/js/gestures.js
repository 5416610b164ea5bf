// Gestures of mouse, wheel and fingers on the chart.

import { rectangleAt } from "./space.js";

const CLICK = 4; // maximum pixels between press and release of a click

export function addGestures(page) {
  const { chart, view } = page;
  const canvas = chart.over;
  const fingers = new Map();
  let drag = null;

  const where = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const under = (px, py) => {
    const [x, y] = chart.toSpace(px, py);
    const i = px < chart.plot.left || py > chart.plot.height ? -1 : rectangleAt(chart.space, x, y);
    return [i < 0 ? -1 : chart.space.block[i], Math.floor(x)];
  };
  const scale = () => {
    const { at } = view;
    return [(at.x1 - at.x0) / chart.plot.width, (at.y1 - at.y0) / chart.plot.height];
  };

  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const [x, y] = chart.toSpace(...where(event));
      const lines = event.deltaMode === 1 ? 16 : 1;
      const [perX, perY] = scale();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        view.moveBy(event.deltaX * lines * perX, 0);
        return;
      }
      const factor = Math.exp(Math.max(-80, Math.min(80, event.deltaY * lines)) * 0.003);
      // A pinch on a touch pad is a wheel event with Ctrl and small steps. It zooms both axes.
      const pinch = event.ctrlKey && Math.abs(event.deltaY) < 30;
      view.zoomAt(
        x,
        y,
        event.altKey ? 1 : pinch ? factor ** 3 : factor,
        event.ctrlKey && !pinch ? 1 : pinch ? factor ** 3 : factor,
      );
    },
    { passive: false },
  );

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    const [px, py] = where(event);
    fingers.set(event.pointerId, [px, py]);
    drag = { px, py, moved: false, box: event.shiftKey, last: [px, py], finger: event.pointerId };
    if (fingers.size > 1) drag = { ...drag, moved: true, pinch: spread(fingers) };
  });

  canvas.addEventListener("pointermove", (event) => {
    const [px, py] = where(event);
    if (!drag) {
      page.hover(...under(px, py), event);
      return;
    }
    fingers.set(event.pointerId, [px, py]);
    if (Math.hypot(px - drag.px, py - drag.py) > CLICK) drag.moved = true;
    if (!drag.moved) return;
    page.leave();
    if (drag.pinch) pinchBy(spread(fingers));
    else if (drag.box) drawBox(px, py);
    else pan(px, py);
  });

  const release = (event) => {
    fingers.delete(event.pointerId);
    if (!drag) return;
    const [px, py] = where(event);
    if (!drag.moved && event.type === "pointerup") page.pick(...under(px, py));
    else if (drag.box && chart.marks.box) zoomToBox();
    chart.marks.box = null;
    drag = fingers.size ? { ...drag, pinch: null, last: [...fingers.values()][0] } : null;
    canvas.classList.remove("moving");
    chart.redrawMarks();
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => page.leave());
  canvas.addEventListener("dblclick", () => view.goTo(view.all()));

  function pan(px, py) {
    const [perX, perY] = scale();
    canvas.classList.add("moving");
    view.moveBy((drag.last[0] - px) * perX, (py - drag.last[1]) * perY);
    drag.last = [px, py];
  }

  function pinchBy(now) {
    const [perX, perY] = scale();
    view.moveBy((drag.pinch.x - now.x) * perX, (now.y - drag.pinch.y) * perY);
    const factor = drag.pinch.apart / now.apart;
    view.zoomAt(...chart.toSpace(now.x, now.y), factor, factor);
    drag.pinch = now;
  }

  function drawBox(px, py) {
    chart.marks.box = {
      x: Math.min(drag.px, px),
      y: Math.min(drag.py, py),
      width: Math.abs(px - drag.px),
      height: Math.abs(py - drag.py),
    };
    chart.redrawMarks();
  }

  function zoomToBox() {
    const { x, y, width, height } = chart.marks.box;
    if (width < CLICK || height < CLICK) return;
    const [x0, y1] = chart.toSpace(x, y);
    const [x1, y0] = chart.toSpace(x + width, y + height);
    view.goTo({ x0, x1, y0, y1 });
  }
}

function spread(fingers) {
  const [[ax, ay], [bx, by] = [ax, ay]] = [...fingers.values()];
  return { x: (ax + bx) / 2, y: (ay + by) / 2, apart: Math.max(10, Math.hypot(ax - bx, ay - by)) };
}

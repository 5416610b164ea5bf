// Visible part of the space, and its movements.

const LEAST_TICKS = 4;
const LEAST_BYTES = 64;
const STEP_MS = 180;

export class View {
  // changed: called after each change of the view.
  constructor(changed) {
    this.changed = changed;
    this.span = 1;
    this.height = 1;
    this.at = { x0: 0, x1: 1, y0: 0, y1: 1 };
    this.frame = 0;
  }

  // Set the size of the space, and show all of it. With `keep` and an equal span, the visible ticks
  // stay.
  setSpace(span, height, keep) {
    const same = keep && this.span === span;
    this.span = span;
    this.height = height;
    const { x0, x1 } = this.at;
    this.set(same ? { ...this.all(), x0, x1 } : this.all());
  }

  all() {
    return { x0: 0, x1: this.span, y0: 0, y1: this.height * 1.02 };
  }

  get whole() {
    const { x0, x1, y0, y1 } = this.at;
    const all = this.all();
    return x0 === all.x0 && x1 === all.x1 && y0 === all.y0 && y1 === all.y1;
  }

  set(wanted) {
    cancelAnimationFrame(this.frame);
    this.at = this.clamp(wanted);
    this.changed();
  }

  clamp({ x0, x1, y0, y1 }) {
    const all = this.all();
    [x0, x1] = within(x0, x1, all.x1, Math.min(LEAST_TICKS, all.x1));
    [y0, y1] = within(y0, y1, all.y1, Math.min(LEAST_BYTES, all.y1));
    return { x0, x1, y0, y1 };
  }

  moveBy(ticks, bytes) {
    const { x0, x1, y0, y1 } = this.at;
    this.set({ x0: x0 + ticks, x1: x1 + ticks, y0: y0 + bytes, y1: y1 + bytes });
  }

  // Zoom around a point; factors below 1 enlarge.
  zoomAt(x, y, byX, byY, smooth = false) {
    const { x0, x1, y0, y1 } = this.at;
    const wanted = {
      x0: x - (x - x0) * byX,
      x1: x + (x1 - x) * byX,
      y0: y - (y - y0) * byY,
      y1: y + (y1 - y) * byY,
    };
    if (smooth) this.goTo(wanted);
    else this.set(wanted);
  }

  // Move to a range in several frames, unless the system prefers reduced motion.
  goTo(wanted) {
    const target = this.clamp(wanted);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.set(target);
      return;
    }
    cancelAnimationFrame(this.frame);
    const from = this.at;
    const begin = performance.now();
    const step = (now) => {
      const t = Math.min(1, Math.max(0, (now - begin) / STEP_MS));
      const eased = 1 - (1 - t) ** 3;
      const mix = (key) => from[key] + (target[key] - from[key]) * eased;
      this.at = t === 1 ? target : { x0: mix("x0"), x1: mix("x1"), y0: mix("y0"), y1: mix("y1") };
      this.changed();
      if (t < 1) this.frame = requestAnimationFrame(step);
    };
    this.frame = requestAnimationFrame(step);
  }
}

// Move a range into [0, limit], with a length of at least `least` and at most `limit`.
function within(low, high, limit, least) {
  let length = Math.min(limit, high - low);
  let middle = (low + high) / 2;
  length = Math.max(length, least);
  middle = Math.min(Math.max(middle, length / 2), limit - length / 2);
  if (length >= limit) return [0, limit];
  return [middle - length / 2, middle + length / 2];
}

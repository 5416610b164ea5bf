// Rectangles of blocks, for one or two turns of the circle (iterations).
//
//      0                 ticks               2 * ticks
//      |      [=========== A ====|=====)           |    a block that wraps around
//      |======)                  |      [==========|    its copies of the previous and next turn
//
// A block that is still alive when the next turn requests it has two slots: at `offset` in even
// turns, and at `alternate` in odd turns.

import { PERSISTENT, SHARED } from "./model.js";

class Rectangles {
  constructor(capacity) {
    this.x0 = new Float64Array(capacity);
    this.x1 = new Float64Array(capacity);
    this.y0 = new Float64Array(capacity);
    this.y1 = new Float64Array(capacity);
    this.block = new Int32Array(capacity);
    this.count = 0;
  }

  add(block, x0, x1, y0, y1) {
    const i = this.count;
    this.count += 1;
    this.x0[i] = x0;
    this.x1[i] = x1;
    this.y0[i] = y0;
    this.y1[i] = y1;
    this.block[i] = block;
  }
}

// mode: "planned" or "placed". persistent: draw blocks without a slot above a planned arena.
export function layOut(model, mode, turns, persistent) {
  const span = model.ticks * turns;
  const rectangles = new Rectangles(model.count * (turns + 2));
  let height = mode === "placed" ? model.header.height : model.arena;
  const place = (block, even, odd) => {
    const [start, size] = [model.start[block], model.size[block]];
    const end = model.end(block);
    const first = model.circular && end !== Infinity && end > model.ticks ? -2 : 0;
    const last = end === Infinity ? 0 : turns - 1;
    for (let turn = first; turn <= last; turn += 1) {
      const shift = turn * model.ticks;
      const y = turn & 1 ? odd : even;
      if (end + shift <= 0) continue;
      rectangles.add(block, Math.max(0, start + shift), Math.min(span, end + shift), y, y + size);
    }
  };
  let kept = 0;
  for (let block = 0; block < model.count; block += 1) {
    if (mode === "placed") {
      const y = model.position[block];
      if (y >= 0) place(block, y, y);
    } else if (model.offset[block] >= 0) {
      const other = model.alternate[block];
      place(block, model.offset[block], other >= 0 ? other : model.offset[block]);
    } else if (persistent && model.flags[block] & (PERSISTENT | SHARED)) {
      place(block, height + kept, height + kept);
      kept += model.taken(block);
    }
  }
  height += kept;
  return {
    mode,
    span: Math.max(span, 1),
    height: Math.max(height, 1),
    arenaTop: kept ? model.arena : 0,
    segments: mode === "placed" ? model.segments : [],
    ...rectangles,
  };
}

// Return the last drawn rectangle at a point; -1 for none.
export function rectangleAt(space, x, y) {
  for (let i = space.count - 1; i >= 0; i -= 1) {
    if (space.x0[i] <= x && x < space.x1[i] && space.y0[i] <= y && y < space.y1[i]) return i;
  }
  return -1;
}

// Return all rectangles of a block.
export function rectanglesOfBlock(space, block) {
  const found = [];
  for (let i = 0; i < space.count; i += 1) if (space.block[i] === block) found.push(i);
  return found;
}

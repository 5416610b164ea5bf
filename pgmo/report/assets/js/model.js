// Blocks of the page, and queries about them.

export const VARYING = 1;
export const SHARED = 2;
export const PERSISTENT = 4;
export const EARLIER = 16; // existed before the recording began; a block of the profile
export const RESIDENT = 8; // existed before the trace began; not a block of the profile

const BEFORE = "before recording";
const FIELDS = { module: 0, op: 1, phase: 2, file: 3 };

export class Model {
  constructor({ header, columns }) {
    this.header = header;
    this.ticks = header.ticks;
    this.turn = Math.max(1, header.ticks); // ticks of an iteration in the picture
    this.circular = header.circular;
    // Without a history, only the blocks at one moment are known.
    this.moment = header.moment;
    this.arena = header.arena;
    this.blocks = columns.size.length;
    const residents = columns["resident:size"] || [];
    this.count = this.blocks + residents.length;
    const grow = (column, rest, blank) => {
      const grown = new Float64Array(this.count).fill(blank);
      grown.set(column);
      if (rest) grown.set(rest, this.blocks);
      return grown;
    };
    this.size = grow(columns.size, residents, 0);
    this.start = grow(columns.start, null, 0);
    this.life = grow(columns.life, null, -1);
    this.offset = grow(columns.offset, null, -1);
    this.alternate = grow(columns.alternate, null, -1);
    this.tag = grow(columns.tag, columns["resident:tag"], -1);
    this.stream = grow(columns.stream, null, 0);
    this.flags = grow(columns.flags, null, RESIDENT);
    this.hasPlaces = Boolean(columns.position);
    if (this.hasPlaces) {
      this.position = grow(columns.position, columns["resident:position"], -1);
      const [at, size, address] = ["position", "size", "address"].map(
        (n) => columns[`segment:${n}`],
      );
      this.segments = Array.from(at, (y, i) => ({ y, size: size[i], address: address[i] }));
    }
    this.load = columns.load;
    this.reserved = Object.keys(columns)
      .filter((name) => name.startsWith("reserved:"))
      .map((name) => ({ name: name.slice("reserved:".length), line: columns[name] }));
    this.peakTick = this.load.reduce(
      (best, bytes, tick) => (bytes > this.load[best] ? tick : best),
      0,
    );
    this.peakBytes = this.load[this.peakTick] || 0;
  }

  // Return the bytes that a block takes in the arena: its size, rounded up to the alignment.
  taken(block) {
    const { alignment } = this.header;
    return Math.ceil(this.size[block] / alignment) * alignment;
  }

  planned(block) {
    return this.moment || !(this.flags[block] & ~(VARYING | EARLIER));
  }

  // Return a field of the block's origin; "" if it is unknown.
  origin(block, field) {
    const tag = this.tag[block];
    return tag < 0 ? "" : this.header.strings[this.header.tags[tag][FIELDS[field]]];
  }

  // Return the name of a block's group. Untagged blocks from before the recording form a group.
  group(block, field) {
    const before = this.flags[block] & (EARLIER | RESIDENT) ? BEFORE : "";
    return this.origin(block, field) || before;
  }

  stack(block) {
    const tag = this.tag[block];
    return tag < 0 ? [] : this.header.tags[tag].slice(4).map((line) => this.header.strings[line]);
  }

  streamName(block) {
    return this.flags[block] & RESIDENT ? "" : this.header.streams[this.stream[block]];
  }

  // Return a short name of a block.
  name(block) {
    const op = this.origin(block, "op");
    const module = this.origin(block, "module");
    const known = [op.replace(/^aten\./, ""), module].filter(Boolean).join(" in ");
    if (!known && this.flags[block] & (EARLIER | RESIDENT)) return `${BEFORE}, block ${block}`;
    return known || this.origin(block, "file").split("/").pop() || `block ${block}`;
  }

  // Return the first tick after the block's life; Infinity for a block that is never freed.
  end(block) {
    return this.life[block] < 0 ? Infinity : this.start[block] + this.life[block];
  }

  wraps(block) {
    return this.life[block] >= 0 && this.end(block) > this.ticks;
  }

  // Return how many copies of a planned block are alive at a tick. A copy may still be alive when
  // the next iteration requests the block again.
  copies(block, tick) {
    const end = this.end(block);
    if (end === Infinity) return this.circular || this.start[block] <= tick ? 1 : 0;
    let count = this.start[block] <= tick && tick < end ? 1 : 0;
    if (this.circular && end > this.ticks) {
      count += (tick + this.ticks < end ? 1 : 0) + (tick + 2 * this.ticks < end ? 1 : 0);
    }
    return count;
  }

  // Return the planned blocks alive at a tick, largest first: [{block, copies, bytes}].
  liveAt(tick) {
    const live = [];
    for (let block = 0; block < this.blocks; block += 1) {
      if (!this.planned(block)) continue;
      const copies = this.copies(block, tick);
      if (copies) live.push({ block, copies, bytes: copies * this.taken(block) });
    }
    return live.sort((a, b) => b.bytes - a.bytes || a.block - b.block);
  }
}

// Drawing of rectangles as pixels, fast enough for a hundred thousand rectangles per frame.
//
// Rectangles of at least `SMALL` pixels are filled directly. All edges are rounded in the same
// way, so neighbours neither overlap nor leave gaps. Smaller rectangles add their colour to sums,
// weighted by the share of the pixel that they cover. The sums are mixed in at the end, so a pixel
// with many rectangles shows their mean colour, not the last colour.

const SMALL = 1.5; // pixels
const EDGED = 5; // from this size on, rectangles get an edge that separates neighbours

export class Raster {
  resize(width, height) {
    if (width === this.width && height === this.height) return;
    this.width = width;
    this.height = height;
    this.image = new ImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.sums = new Float32Array(4 * width * height);
  }

  // fills, edges: colours (0xaabbggrr) by shade; shade: shade of each block;
  // ground: colour between blocks; beyond: colour above the highest address.
  draw(space, at, { shade, fills, edges, ground, beyond }) {
    const { width, height, pixels } = this;
    const above = Math.round(height * (1 - (space.height - at.y0) / (at.y1 - at.y0)));
    pixels.fill(ground);
    if (above > 0) pixels.fill(beyond, 0, above * width);
    this.sums.fill(0);
    const sx = width / (at.x1 - at.x0);
    const sy = height / (at.y1 - at.y0);
    let mixed = false;
    this.seen = 0;
    for (let i = 0; i < space.count; i += 1) {
      if (space.x1[i] <= at.x0 || space.x0[i] >= at.x1) continue;
      if (space.y1[i] <= at.y0 || space.y0[i] >= at.y1) continue;
      this.seen += 1;
      const left = Math.max(0, (space.x0[i] - at.x0) * sx);
      const right = Math.min(width, (space.x1[i] - at.x0) * sx);
      const top = Math.max(0, height - (space.y1[i] - at.y0) * sy);
      const bottom = Math.min(height, height - (space.y0[i] - at.y0) * sy);
      const tone = shade[space.block[i]];
      if (right - left < SMALL || bottom - top < SMALL) {
        this.add(left, right, top, bottom, fills[tone]);
        mixed = true;
      } else {
        this.fill(
          Math.round(left),
          Math.round(right),
          Math.round(top),
          Math.round(bottom),
          fills[tone],
          edges[tone],
        );
      }
    }
    if (mixed) this.mix();
  }

  fill(left, right, top, bottom, colour, edge) {
    const { width, pixels } = this;
    const edged = right - left >= EDGED && bottom - top >= EDGED;
    const end = edged ? right - 1 : right;
    for (let y = top; y < bottom; y += 1) {
      const row = y * width;
      if (edged && y === top) {
        pixels.fill(edge, row + left, row + right);
        continue;
      }
      pixels.fill(colour, row + left, row + end);
      if (edged) pixels[row + end] = edge;
    }
  }

  add(left, right, top, bottom, colour) {
    const { width, height, sums } = this;
    const [red, green, blue] = [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255];
    const lastX = Math.min(width, Math.ceil(right));
    const lastY = Math.min(height, Math.ceil(bottom));
    for (let y = Math.floor(top); y < lastY; y += 1) {
      const tall = Math.min(bottom, y + 1) - Math.max(top, y);
      for (let x = Math.floor(left); x < lastX; x += 1) {
        const cover = tall * (Math.min(right, x + 1) - Math.max(left, x));
        const at = 4 * (y * width + x);
        sums[at] += cover * red;
        sums[at + 1] += cover * green;
        sums[at + 2] += cover * blue;
        sums[at + 3] += cover;
      }
    }
  }

  mix() {
    const { sums, pixels } = this;
    for (let i = 0, at = 3; i < pixels.length; i += 1, at += 4) {
      const cover = sums[at];
      if (cover === 0) continue;
      const under = pixels[i];
      const part = Math.min(1, cover);
      const rest = 1 - part;
      const scale = part / cover;
      const red = sums[at - 3] * scale + (under & 255) * rest;
      const green = sums[at - 2] * scale + ((under >> 8) & 255) * rest;
      const blue = sums[at - 1] * scale + ((under >> 16) & 255) * rest;
      pixels[i] = 0xff000000 | (blue << 16) | (green << 8) | red;
    }
  }
}

// Convert "#rrggbb" to 0xffbbggrr, the order of image data on little-endian machines.
export function packColour(hex) {
  const value = parseInt(hex.slice(1), 16);
  return (0xff000000 | ((value & 255) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
}

// Mix two colours "#rrggbb"; `part` is the share of the first colour.
export function mixColours(one, other, part) {
  const channel = (shift) => {
    const [a, b] = [one, other].map((hex) => (parseInt(hex.slice(1), 16) >> shift) & 255);
    return Math.round(a * part + b * (1 - part));
  };
  const mixed = (channel(16) << 16) | (channel(8) << 8) | channel(0);
  return `#${mixed.toString(16).padStart(6, "0")}`;
}

// Return whether dark text is easier to read on a colour than light text.
export function isLight(hex) {
  const value = parseInt(hex.slice(1), 16);
  return 0.299 * (value >> 16) + 0.587 * ((value >> 8) & 255) + 0.114 * (value & 255) > 140;
}

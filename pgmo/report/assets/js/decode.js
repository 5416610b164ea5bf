// Decoder of the page's data: the inverse of pgmo/report/page/packed.py.

export async function decode(text) {
  const bytes = await inflate(fromBase64(text.trim()));
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const reader = { bytes, at: 4 + length };
  const columns = {};
  for (const column of header.columns) columns[column.name] = readColumn(reader, column);
  return { header, columns };
}

function fromBase64(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Read a column. Digits are multiplied, because numbers reach 2^53, and shifts work on 32 bits.
function readColumn(reader, { length, unit, delta }) {
  const values = new Float64Array(length);
  const { bytes } = reader;
  let at = reader.at;
  let last = 0;
  for (let i = 0; i < length; i += 1) {
    let byte = bytes[at++];
    let value = byte & 127;
    for (let place = 128; byte & 128; place *= 128) {
      byte = bytes[at++];
      value += (byte & 127) * place;
    }
    value = value % 2 ? -(value + 1) / 2 : value / 2;
    if (delta) value = last += value;
    values[i] = value < 0 ? -1 : value * unit;
  }
  reader.at = at;
  return values;
}

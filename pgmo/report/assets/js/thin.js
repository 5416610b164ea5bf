// Thinning of long lines to the largest and the smallest value of each stretch of ticks.

const EXACT = 3000; // maximum ticks of a line that is drawn without thinning

// lines: values by tick, which repeat every `ticks` until `span`; then the last value holds;
// x0, x1: the visible ticks; stretches: number of stretches.
// Return [times, values of the first line, values of the second line, ...].
export function thinLines(lines, { ticks, span }, x0, x1, stretches) {
  const from = Math.max(0, Math.floor(x0) - 1);
  const to = Math.min(Math.ceil(x1), span) + 1;
  const at = (line, tick) => line[Math.min(tick, span - 1) % ticks] ?? 0;
  if (to - from <= EXACT) {
    const times = Float64Array.from({ length: to - from }, (_, i) => from + i);
    return [times, ...lines.map((line) => times.map((tick) => at(line, tick)))];
  }
  const step = (to - from) / stretches;
  const times = Float64Array.from({ length: 2 * stretches }, (_, i) => from + (i * step) / 2);
  const thinned = lines.map((line) => {
    const values = new Float64Array(2 * stretches);
    for (let i = 0; i < stretches; i += 1) {
      let [low, high] = [Infinity, 0];
      for (let tick = Math.floor(from + i * step); tick < from + (i + 1) * step; tick += 1) {
        const value = at(line, tick);
        if (value < low) low = value;
        if (value > high) high = value;
      }
      values[2 * i] = high;
      values[2 * i + 1] = low;
    }
    return values;
  });
  return [times, ...thinned];
}

#include "packing/sweep/unrolled.hpp"

#include <algorithm>
#include <utility>

namespace pgmo::packing {

Unrolled unrolled(const Window& circle, Rank from, Rank sections) {
  Unrolled result;
  Window& line = result.line;
  line.sections = sections;
  line.base = circle.base;
  line.unit = circle.unit;
  line.load = circle.load;
  for (BlockId i = 0; i < circle.blocks(); ++i) {
    Rank begin = circle.begin[i] - from;
    const auto copies = static_cast<BlockId>(result.of.size());
    while (begin + circle.end[i] - circle.begin[i] > circle.sections) begin -= circle.sections;
    for (; begin < sections; begin += circle.sections) {
      const Rank end = begin + circle.end[i] - circle.begin[i];
      if (end <= 0) continue;
      const BlockId copy = line.blocks();
      if (copy > copies) result.next[copy - 1] = copy;
      result.of.push_back(i);
      result.next.push_back(-1);
      line.block.push_back(circle.block[i]);
      line.size.push_back(circle.size[i]);
      line.lifetime.push_back(circle.lifetime[i]);
      line.begin.push_back(std::max<Rank>(begin, 0));
      line.end.push_back(std::min(end, sections));
    }
  }
  return result;
}

bool rolled_up(const Window& circle, const Unrolled& unrolled, Offsets& offsets) {
  const Window& line = unrolled.line;
  const Rank turn = circle.sections;
  for (Rank from = 0; from + turn < line.sections; from += turn) {
    Offsets found(circle.block.size(), kUnplanned);
    bool same = true;
    for (BlockId i = 0; same && i < line.blocks(); ++i) {
      if (line.begin[i] > from + turn || line.end[i] <= from) continue;
      Offset& offset = found[unrolled.of[i]];
      same = offset == kUnplanned || offset == offsets[i];
      offset = offsets[i];
    }
    if (!same) continue;
    offsets = std::move(found);
    return true;
  }
  return false;
}

}  // namespace pgmo::packing

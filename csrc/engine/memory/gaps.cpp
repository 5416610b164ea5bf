#include "engine/memory/gaps.hpp"

#include <iterator>

namespace pgmo {

Gaps::Gaps(Range whole, std::span<const Range> living, Bytes alignment)
    : whole_(whole), alignment_(alignment) {
  Offset free_from = whole.begin;
  for (const Range& block : living) {
    if (block.begin < whole.begin || block.begin >= whole.end) continue;
    add({free_from, block.begin});
    free_from = block.end;
  }
  add({free_from, whole.end});
}

Offset Gaps::find(Bytes bytes) const noexcept {
  const auto best = by_room_.lower_bound({bytes, 0});
  return best == by_room_.end() ? kUnplanned : best->second;
}

Offset Gaps::find_outside(std::span<const Range> ranges, Bytes bytes) const noexcept {
  auto gap = by_room_.lower_bound({bytes, 0});
  for (int looks = 0; gap != by_room_.end() && looks < kMostLooks; ++gap, ++looks) {
    Offset from = gap->second;
    const Offset end = from + gap->first;
    for (const Range& range : ranges) {
      if (range.end <= from) continue;
      if (range.begin >= end || range.begin - from >= bytes) break;
      from = aligned(range.end);
    }
    if (end - from >= bytes) return from;
  }
  return kUnplanned;
}

bool Gaps::take(Offset offset, Bytes bytes) {
  auto gap = by_offset_.upper_bound(offset);
  if (gap == by_offset_.begin()) return false;
  --gap;
  const Range around{gap->first, gap->second};
  if (around.end < offset + bytes) return false;
  remove(gap);
  add({around.begin, offset});
  add({offset + bytes, around.end});
  return true;
}

void Gaps::free(Offset offset, Bytes bytes) {
  Range gap{offset, offset + bytes};
  auto after = by_offset_.lower_bound(gap.begin);
  if (after != by_offset_.begin()) {
    const auto before = std::prev(after);
    if (before->second == gap.begin) {
      gap.begin = before->first;
      remove(before);
    }
  }
  if (after != by_offset_.end() && after->first == gap.end) {
    gap.end = after->second;
    remove(after);
  }
  add(gap);
}

void Gaps::add(Range gap) {
  if (gap.begin >= gap.end) return;
  by_offset_.emplace(gap.begin, gap.end);
  const Offset begin = aligned(gap.begin);
  if (begin < gap.end) by_room_.emplace(gap.end - begin, begin);
}

void Gaps::remove(ByOffset::iterator gap) noexcept {
  const Offset begin = aligned(gap->first);
  by_room_.erase({gap->second - begin, begin});
  by_offset_.erase(gap);
}

Offset Gaps::aligned(Offset begin) const noexcept {
  const Offset behind = (begin - whole_.begin) % alignment_;
  return behind == 0 ? begin : begin + alignment_ - behind;
}

}  // namespace pgmo

#include "packing/occupancy.hpp"

#include <algorithm>
#include <bit>

namespace pgmo::packing {
namespace {

// Wide nodes number about twice this. More of them means shorter searches and more handing down.
constexpr Rank kNarrowNodes = 512;

}  // namespace

Occupancy::Occupancy(Rank ranks)
    : ranks_(ranks),
      leaves_(static_cast<Rank>(std::bit_ceil(static_cast<std::uint32_t>(ranks)))),
      narrow_(std::max<Rank>(64, leaves_ / kNarrowNodes)),
      nodes_(2 * static_cast<std::size_t>(leaves_)),
      recent_(2 * static_cast<std::size_t>(leaves_)) {}

Offset Occupancy::lowest_fit(Rank begin, Rank end, Bytes size) {
  watched_.clear();
  collect(1, 0, leaves_, begin, std::min(end, ranks_));
  if (end > ranks_) collect(1, 0, leaves_, 0, end - ranks_);
  Recent& recent = recent_[(static_cast<std::uint32_t>(begin) * 0x9E3779B1U ^
                            static_cast<std::uint32_t>(end) * 0x85EBCA77U) %
                           recent_.size()];
  const bool known = recent.begin == begin && recent.end == end && recent.size <= size;
  Offset at = known ? recent.at : 0;
  for (const Watched& watched : watched_) at = std::max(at, watched.set->solid());
  std::erase_if(watched_, [at](const Watched& watched) { return watched.set->top() <= at; });
  std::size_t agreed = 0;  // sets in a row that left the candidate in place
  for (std::size_t i = 0; agreed < watched_.size(); i = i + 1 == watched_.size() ? 0 : i + 1) {
    const Offset next = watched_[i].set->first_gap(at, size, watched_[i].cursor);
    agreed = next == at ? agreed + 1 : 1;
    at = next;
  }
  recent = {begin, end, size, at};
  return at;
}

void Occupancy::collect(Rank node, Rank first, Rank last, Rank begin, Rank end) {
  if (begin >= last || end <= first || nodes_[node].used.empty()) return;
  if (begin <= first && last <= end) {
    watched_.push_back({&nodes_[node].used, {}});
    return;
  }
  if (last - first > narrow_) {
    hand_down(node);
  } else if (!nodes_[node].cover.empty()) {
    watched_.push_back({&nodes_[node].cover, {}});
  }
  const Rank middle = first + (last - first) / 2;
  collect(2 * node, first, middle, begin, end);
  collect(2 * node + 1, middle, last, begin, end);
}

void Occupancy::add(Rank begin, Rank end, Offset offset, Bytes size) {
  insert(begin, std::min(end, ranks_), offset, offset + size);
  if (end > ranks_) insert(0, end - ranks_, offset, offset + size);
}

// Whatever a node has in use, all nodes above it have: climbing ends where nothing is new.
void Occupancy::insert(Rank begin, Rank end, Offset low, Offset high) {
  const auto cover = [&](Rank node) {
    nodes_[node].used.add(low, high);
    if (node < leaves_) nodes_[node].cover.add(low, high);  // a leaf has no use for a cover
    for (node /= 2; node >= 1 && nodes_[node].used.add(low, high); node /= 2) {
    }
  };
  for (begin += leaves_, end += leaves_; begin < end; begin /= 2, end /= 2) {
    if (begin & 1) cover(begin++);
    if (end & 1) cover(--end);
  }
}

void Occupancy::hand_down(Rank node) {
  IntervalSet& cover = nodes_[node].cover;
  if (cover.empty()) return;
  for (const Rank child : {2 * node, 2 * node + 1}) {
    nodes_[child].used.add(cover);
    nodes_[child].cover.add(cover);
  }
  cover.clear();
}

Offsets fill_first_fit(const Ring& ring, const std::vector<BlockId>& order) {
  Offsets offsets(ring.size.size(), kUnplanned);
  if (ring.ranks == 0) return offsets;
  Occupancy occupancy(ring.ranks);
  for (const BlockId block : order) {
    const Rank begin = ring.begin[block];
    const Rank end = ring.end[block];
    offsets[block] = occupancy.lowest_fit(begin, end, ring.size[block]);
    occupancy.add(begin, end, offsets[block], ring.size[block]);
  }
  return offsets;
}

}  // namespace pgmo::packing

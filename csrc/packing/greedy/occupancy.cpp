#include "packing/greedy/occupancy.hpp"

#include <algorithm>
#include <bit>

namespace pgmo::packing {
namespace {

constexpr std::size_t kAsk = 256;  // blocks from one question whether to stop to the next

// Wide nodes number about twice `count`, and are wider than `width` in any case. More of them means
// shorter searches and more handing down, which costs half as much where there is no `used`.
struct Narrow {
  Rank width, count;
};
constexpr Narrow kNarrow{64, 512};
constexpr Narrow kNarrowEnds{32, 1024};

Rank narrow_width(Narrow narrow, Rank leaves) {
  return std::max(narrow.width, leaves / narrow.count);
}

}  // namespace

Occupancy::Occupancy(Rank ranks, Arrival arrival)
    : ranks_(ranks),
      ends_only_(arrival == Arrival::kFallingLifetime),
      leaves_(static_cast<Rank>(std::bit_ceil(static_cast<std::uint32_t>(ranks)))),
      narrow_(narrow_width(ends_only_ ? kNarrowEnds : kNarrow, leaves_)),
      nodes_(2 * static_cast<std::size_t>(leaves_)),
      recent_(2 * static_cast<std::size_t>(leaves_)) {}

Offset Occupancy::lowest_fit(Rank begin, Rank end, Bytes size) {
  watched_.clear();
  if (ends_only_) {
    watch_ends(1, 0, leaves_, begin, end > ranks_ ? end - 1 - ranks_ : end - 1);
  } else {
    watch_within(1, 0, leaves_, begin, std::min(end, ranks_));
    if (end > ranks_) watch_within(1, 0, leaves_, 0, end - ranks_);
  }
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

void Occupancy::watch_within(Rank node, Rank first, Rank last, Rank begin, Rank end) {
  if (begin >= last || end <= first || nodes_[node].used.empty()) return;
  if (begin <= first && last <= end) {
    watched_.push_back({&nodes_[node].used, {}});
    return;
  }
  watch_cover(node, last - first);
  const Rank middle = first + (last - first) / 2;
  watch_within(2 * node, first, middle, begin, end);
  watch_within(2 * node + 1, middle, last, begin, end);
}

void Occupancy::watch_ends(Rank node, Rank first, Rank last, Rank a, Rank b) {
  if ((a < first || a >= last) && (b < first || b >= last)) return;
  watch_cover(node, last - first);
  if (last - first == 1) return;
  const Rank middle = first + (last - first) / 2;
  watch_ends(2 * node, first, middle, a, b);
  watch_ends(2 * node + 1, middle, last, a, b);
}

void Occupancy::watch_cover(Rank node, Rank width) {
  if (width > narrow_) {
    hand_down(node);
  } else if (!nodes_[node].cover.empty()) {
    watched_.push_back({&nodes_[node].cover, {}});
  }
}

void Occupancy::add(Rank begin, Rank end, Offset offset, Bytes size) {
  insert(begin, std::min(end, ranks_), offset, offset + size);
  if (end > ranks_) insert(0, end - ranks_, offset, offset + size);
}

// Whatever a node has in use, all nodes above it have: climbing ends where nothing is new.
void Occupancy::insert(Rank begin, Rank end, Offset low, Offset high) {
  const auto cover = [&](Rank node) {
    if (ends_only_) {
      nodes_[node].cover.add(low, high);
      return;
    }
    nodes_[node].used.add(low, high);
    if (node < leaves_) nodes_[node].cover.add(low, high);  // nothing is below a leaf
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
    if (!ends_only_) nodes_[child].used.add(cover);
    nodes_[child].cover.add(cover);
  }
  cover.clear();
}

Offsets fill_first_fit(const Ring& ring, const Stop& stop, const std::vector<BlockId>& order,
                       Arrival arrival) {
  Offsets offsets(ring.size.size(), kUnplanned);
  if (ring.ranks == 0) return offsets;
  Occupancy occupancy(ring.ranks, arrival);
  std::size_t done = 0;
  for (const BlockId block : order) {
    if (++done % kAsk == 0 && stop && stop()) break;
    const Rank begin = ring.begin[block];
    const Rank end = ring.end[block];
    offsets[block] = occupancy.lowest_fit(begin, end, ring.size[block]);
    occupancy.add(begin, end, offsets[block], ring.size[block]);
  }
  return offsets;
}

}  // namespace pgmo::packing

#include "packing/exact/window.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "packing/search/interference.hpp"

namespace pgmo::packing {
namespace {

// A set of blocks of a ring, with lifetimes in the part's own ranks.
struct Part {
  std::vector<BlockId> block;
  std::vector<Rank> begin, end;  // end > ranks: the block wraps
  Rank ranks = 0;
  bool circular = false;
  Bytes base = 0;

  std::size_t size() const { return block.size(); }
  void add(BlockId which, Rank from, Rank to) {
    block.push_back(which);
    begin.push_back(from);
    end.push_back(to);
  }
};

// Add to `spared` the blocks that fit below the bound, wherever the blocks that overlap them in
// time lie. Return the remaining blocks. If a block overlaps k others with `sum` bytes in total,
// there are at most k + 1 gaps below the bound, with at least bound - sum bytes in total. All
// offsets are multiples of the unit, so a gap that is too small is smaller by at least a unit.
Part spare(const Ring& ring, Bytes bound, Bytes unit, std::vector<BlockId>& spared) {
  std::vector<bool> gone(ring.size.size());
  const auto ranks = static_cast<std::size_t>(ring.ranks);
  // A pass that spares very few blocks is the last. Sums over two turns of the circle must stay
  // below 2^63.
  const bool possible =
      bound > 0 && std::accumulate(ring.size.begin(), ring.size.end(), Bytes{0}) <= Bytes{1} << 61;
  std::size_t found = possible ? 1 : 0;
  for (std::size_t least = 0; found > least; least = gone.size() / 1000) {
    found = 0;
    // Sums of sizes and numbers of blocks that are alive at a rank, and that began before a rank.
    // `begun` and `begun_count` cover two turns of the circle.
    std::vector<Bytes> alive(ranks + 1), begun(2 * ranks + 1);
    std::vector<std::int64_t> alive_count(ranks + 1), begun_count(2 * ranks + 1);
    for (BlockId i = 0; i < ring.blocks(); ++i) {
      if (gone[i]) continue;
      const auto enter = [&](Rank from, Rank to) {
        alive[from] += ring.size[i], ++alive_count[from];
        alive[to] -= ring.size[i], --alive_count[to];
      };
      enter(ring.begin[i], std::min(ring.end[i], ring.ranks));
      if (ring.end[i] > ring.ranks) enter(0, ring.end[i] - ring.ranks);
      for (const std::size_t at : {ring.begin[i] + 1ul, ring.begin[i] + 1ul + ranks}) {
        begun[at] += ring.size[i], ++begun_count[at];
      }
    }
    std::partial_sum(alive.begin(), alive.end(), alive.begin());
    std::partial_sum(alive_count.begin(), alive_count.end(), alive_count.begin());
    std::partial_sum(begun.begin(), begun.end(), begun.begin());
    std::partial_sum(begun_count.begin(), begun_count.end(), begun_count.begin());
    for (BlockId i = 0; i < ring.blocks(); ++i) {
      if (gone[i]) continue;
      // Sum up the blocks alive when block i begins, and the blocks that begin later in its life. A
      // wrapping block may count twice, so fewer blocks are spared.
      const Rank begin = ring.begin[i], end = ring.end[i], later = begin + 1;
      const Bytes sum = alive[begin] - ring.size[i] + begun[end] - begun[later];
      const std::int64_t count = alive_count[begin] - 1 + begun_count[end] - begun_count[later];
      const Bytes free = bound - sum - unit;
      if (free < 0 || free / (count + 1) < ring.size[i] - unit) continue;
      gone[i] = true;
      spared.push_back(i);
      ++found;
    }
  }
  Part part;
  part.ranks = ring.ranks;
  part.circular = ring.circular;
  for (BlockId i = 0; i < ring.blocks(); ++i) {
    if (!gone[i]) part.add(i, ring.begin[i], ring.end[i]);
  }
  return part;
}

// Renumber time by sections. A section ends after a rank at which a block ends, if a block began
// since the previous section.
Part by_sections(const Part& part) {
  const Rank ranks = part.ranks;
  std::vector<std::uint8_t> begins(ranks), ends(ranks);
  for (std::size_t i = 0; i < part.size(); ++i) {
    begins[part.begin[i]] = 1;
    ends[(part.end[i] - 1) % ranks] = 1;
  }
  // On a circle, a begin after the last end belongs to the first section.
  bool begun = false;
  for (Rank r = ranks - 1; part.circular && r >= 0 && !ends[r]; --r) begun |= begins[r] != 0;
  std::vector<Rank> section(ranks + 1);  // number of sections before each rank
  Rank count = 0;
  for (Rank r = 0; r < ranks; ++r) {
    section[r] = count;
    begun |= begins[r] != 0;
    if (!begun || !ends[r]) continue;
    ++count;
    begun = false;
  }
  section[ranks] = count;
  Part result;
  result.ranks = count;
  result.circular = part.circular;
  result.base = part.base;
  for (std::size_t i = 0; i < part.size(); ++i) {
    Rank begin = section[part.begin[i]];
    Rank end = part.end[i] <= ranks ? section[part.end[i]] : count + section[part.end[i] - ranks];
    if (begin == count) begin -= count, end -= count;
    result.add(part.block[i], begin, end);
  }
  return result;
}

// Cut a part between ranks that no block crosses. A circle becomes a line for each cut.
std::vector<Part> cut(const Part& part) {
  const Rank ranks = part.ranks;
  std::vector<Rank> crossing(ranks + 1);  // number of blocks that cross from the previous rank
  for (std::size_t i = 0; i < part.size(); ++i) {
    ++crossing[std::min(part.begin[i] + 1, ranks)];
    --crossing[std::min(part.end[i], ranks)];
    if (part.end[i] > ranks) {
      ++crossing[0];
      --crossing[part.end[i] - ranks];
    }
  }
  std::partial_sum(crossing.begin(), crossing.end(), crossing.begin());
  std::vector<Rank> cuts;
  for (Rank r = 0; r < ranks; ++r) {
    if (crossing[r] == 0) cuts.push_back(r);
  }
  if (cuts.empty()) return {part};
  std::vector<Part> parts(cuts.size());
  for (std::size_t i = 0; i < part.size(); ++i) {
    const auto after = std::upper_bound(cuts.begin(), cuts.end(), part.begin[i]) - cuts.begin();
    // A block that begins before the first cut belongs to the last part, which passes the seam.
    const std::size_t index = after == 0 ? cuts.size() - 1 : after - 1;
    const Rank shift = after == 0 ? cuts.back() - ranks : cuts[index];
    parts[index].add(part.block[i], part.begin[i] - shift, part.end[i] - shift);
  }
  for (std::size_t index = 0; index < cuts.size(); ++index) {
    const Rank next = index + 1 < cuts.size() ? cuts[index + 1] : cuts[0] + ranks;
    parts[index].ranks = next - cuts[index];
    parts[index].base = part.base;
  }
  return parts;
}

// The filled height at each rank, which only grows. Heights are stored in a segment tree: each node
// has the height of its whole range, and the largest height within the range.
class Heights {
 public:
  explicit Heights(Rank ranks) : ranks_(ranks), raised_(2 * ranks), within_(2 * ranks) {}

  Offset highest(Rank begin, Rank end) const {
    Offset highest = 0;
    each_node(begin, end, [&](Rank node) {
      highest = std::max(highest, within_[node]);
      for (node /= 2; node >= 1; node /= 2) highest = std::max(highest, raised_[node]);
    });
    return highest;
  }

  void raise(Rank begin, Rank end, Offset to) {
    each_node(begin, end, [&](Rank node) {
      raised_[node] = std::max(raised_[node], to);
      for (; node >= 1 && within_[node] < to; node /= 2) within_[node] = to;
    });
  }

 private:
  template <typename Visit>
  void each_node(Rank begin, Rank end, Visit visit) const {
    for (begin += ranks_, end += ranks_; begin < end; begin /= 2, end /= 2) {
      if (begin & 1) visit(begin++);
      if (end & 1) visit(--end);
    }
  }

  Rank ranks_;
  std::vector<Offset> raised_, within_;
};

// Move blocks that are alive in all sections of a part into its base. Return whether any moved.
bool sink(const Ring& ring, Part& part, Offsets& offsets) {
  Part rest;
  rest.ranks = part.ranks;
  rest.circular = part.circular;
  rest.base = part.base;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part.end[i] - part.begin[i] < part.ranks) {
      rest.add(part.block[i], part.begin[i], part.end[i]);
    } else {
      offsets[part.block[i]] = rest.base;
      rest.base += ring.size[part.block[i]];
    }
  }
  const bool sunk = rest.size() < part.size();
  part = std::move(rest);
  return sunk;
}

Window window_of(const Ring& ring, const Part& part, Bytes unit) {
  Window window;
  window.block = part.block;
  window.begin = part.begin;
  window.end = part.end;
  window.sections = part.ranks;
  window.base = part.base;
  window.unit = unit;
  for (const BlockId block : part.block) {
    window.size.push_back(ring.size[block] / unit);
    window.lifetime.push_back(ring.lifetime[block]);
  }
  const std::vector<Bytes> load = load_of(part.ranks, window.size, part.begin, part.end);
  window.load = *std::max_element(load.begin(), load.end());
  return window;
}

}  // namespace

Reduction reduce(const Ring& ring, Bytes bound) {
  Reduction reduction;
  reduction.offsets.assign(ring.size.size(), kUnplanned);
  if (ring.blocks() == 0) return reduction;
  Bytes unit = 0;
  for (const Bytes size : ring.size) unit = std::gcd(unit, size);

  if (ring.blocks() > kSpareUpTo) bound = 0;
  std::vector<Part> open = cut(spare(ring, bound, unit, reduction.spared));
  while (!open.empty()) {
    Part part = std::move(open.back());
    open.pop_back();
    if (part.size() == 0) continue;
    part = by_sections(part);
    const bool sunk = sink(ring, part, reduction.offsets);
    reduction.arena = std::max(reduction.arena, part.base);
    if (part.size() == 0) continue;
    if (!sunk) {
      reduction.windows.push_back(window_of(ring, part, unit));
      continue;
    }
    for (Part& piece : cut(part)) open.push_back(std::move(piece));
  }
  return reduction;
}

void restore(const Ring& ring, const Reduction& reduction, Offsets& offsets) {
  if (reduction.spared.empty()) return;
  const InterferenceIndex interference(ring);
  for (const BlockId block : reduction.spared) offsets[block] = kUnplanned;
  std::vector<std::pair<Offset, Offset>> taken;
  // Begin with the block spared last: it needs a gap among the fewest other blocks.
  for (auto it = reduction.spared.rbegin(); it != reduction.spared.rend(); ++it) {
    taken.clear();
    interference.each(*it, [&](BlockId other) {
      if (offsets[other] != kUnplanned) {
        taken.emplace_back(offsets[other], offsets[other] + ring.size[other]);
      }
    });
    std::sort(taken.begin(), taken.end());
    Offset place = 0;
    for (const auto& [low, high] : taken) {
      if (low >= place + ring.size[*it]) break;
      place = std::max(place, high);
    }
    offsets[*it] = place;
  }
}

Offsets assemble(const Ring& ring, const Reduction& reduction,
                 const std::vector<const Offsets*>& windows) {
  Offsets offsets = reduction.offsets;
  for (std::size_t w = 0; w < windows.size(); ++w) {
    const Window& window = reduction.windows[w];
    for (BlockId i = 0; i < window.blocks(); ++i) {
      offsets[window.block[i]] = window.bytes((*windows[w])[i]);
    }
  }
  restore(ring, reduction, offsets);
  return offsets;
}

Ring ring_of(const Window& window) {
  Ring ring;
  ring.ranks = window.sections;
  ring.circular = std::any_of(window.end.begin(), window.end.end(),
                              [&](Rank end) { return end > window.sections; });
  ring.size = window.size;
  ring.begin = window.begin;
  ring.end = window.end;
  ring.lifetime = window.lifetime;
  ring.max_load = window.load;
  return ring;
}

Offsets push_down(const Window& window, const Offsets& offsets) {
  std::vector<BlockId> order(window.block.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](BlockId a, BlockId b) {
    return offsets[window.block[a]] < offsets[window.block[b]];
  });
  Heights heights(window.sections);
  Offsets result(window.block.size());
  for (const BlockId i : order) {
    const Rank end = std::min(window.end[i], window.sections), rest = window.end[i] - end;
    const Offset offset = std::max(heights.highest(window.begin[i], end), heights.highest(0, rest));
    heights.raise(window.begin[i], end, offset + window.size[i]);
    heights.raise(0, rest, offset + window.size[i]);
    result[i] = offset;
  }
  return result;
}

Bytes height_of(const Window& window, const Offsets& offsets) {
  Bytes height = 0;
  for (BlockId i = 0; i < window.blocks(); ++i) {
    height = std::max(height, offsets[i] + window.size[i]);
  }
  return height;
}

}  // namespace pgmo::packing

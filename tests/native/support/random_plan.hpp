// Random circular plans, and a first-fit packer that shares no code with pgmo's packers.
//
//     tick      0 1 2 3 4 5 6 7
//     block a   ▓ ▓ ▓ . . . . .      one bit per tick: two blocks conflict
//     block b   ▓ ▓ . . . . ▓ ▓      when their masks have a bit in common
//     block c   ▓ ▓ ▓ ▓ ▓ ▓ ▓ ▓      a block longer than one iteration: two slots, all bits set

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/replay/replay_plan.hpp"
#include "random.hpp"

namespace pgmo::test {

inline constexpr std::uint32_t kMostStreams = 3;  // maximum number of streams of a plan

struct RandomPlan {
  std::vector<PlannedRequest> rows;
  Bytes arena = 0;
  Bytes alignment = 1;
  std::array<Bytes, kMostStreams> heights{};  // bytes of each stream's part
};

// Properties that all plans of one program share. `varying`, `persistent` and `two_turns`: shares
// of requests.
struct PlanStyle {
  std::int64_t ticks;
  Bytes alignment;
  std::vector<Bytes> sizes;
  std::uint32_t streams;
  double varying;
  double persistent;
  double two_turns;
};

class FirstFit {
 public:
  FirstFit(Tick ticks, Bytes alignment)
      : words_(static_cast<std::size_t>(ticks + 63) / 64), ticks_(ticks), alignment_(alignment) {}

  // Place a block at the lowest aligned offset that is free in [start, end), and return the offset.
  Offset place(Bytes bytes, Tick start, Tick end) {
    std::vector<std::uint64_t> mask(words_);
    for (Tick tick = start; tick < std::min(end, start + ticks_); ++tick) {
      const auto bit = static_cast<std::size_t>(tick % ticks_);
      mask[bit / 64] |= std::uint64_t{1} << bit % 64;
    }
    Offset offset = 0;
    for (const Placed& other : placed_) {  // sorted by offset
      if (other.offset >= offset + bytes) break;
      if (other.offset + other.bytes <= offset || !meets(mask, other.mask)) continue;
      offset = (other.offset + other.bytes + alignment_ - 1) / alignment_ * alignment_;
    }
    const auto at = std::upper_bound(placed_.begin(), placed_.end(), offset,
                                     [](Offset a, const Placed& b) { return a < b.offset; });
    placed_.insert(at, {offset, bytes, std::move(mask)});
    height_ = std::max(height_, offset + bytes);
    return offset;
  }

  Bytes height() const { return height_; }

 private:
  struct Placed {
    Offset offset;
    Bytes bytes;
    std::vector<std::uint64_t> mask;
  };

  static bool meets(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
    for (std::size_t word = 0; word < a.size(); ++word) {
      if ((a[word] & b[word]) != 0) return true;
    }
    return false;
  }

  std::size_t words_;
  Tick ticks_;
  Bytes alignment_;
  std::vector<Placed> placed_;
  Bytes height_ = 0;
};

inline PlanStyle random_style(Random& random) {
  static const std::vector<Bytes> kAlignments = {1, 16, 64, 512};
  PlanStyle style{.ticks = random.chance(0.2) ? random.between(1, 6) : random.between(5, 90),
                  .alignment = random.pick(kAlignments),
                  .sizes = {},
                  .streams = random.chance(0.4) ? kMostStreams : 1u,
                  .varying = random.chance(0.4) ? 0.4 : 0.0,
                  .persistent = random.chance(0.5) ? 0.05 : 0.0,
                  .two_turns = random.chance(0.4) ? 0.04 : 0.0};
  if (random.chance(0.03)) style.ticks = random.between(200, 700);
  const std::int64_t different = random.between(1, 12);
  for (std::int64_t at = 0; at < different; ++at) style.sizes.push_back(random.between(1, 3000));
  return style;
}

inline RandomPlan random_plan(Random& random, const PlanStyle& style) {
  RandomPlan plan;
  plan.alignment = style.alignment;
  const Tick ticks = style.ticks;
  for (Tick start = 0; start < ticks; ++start) {
    Tick end = start + random.between(1, std::min<Tick>(ticks, 8));
    if (random.chance(0.25)) end = start + random.between(1, ticks);
    if (random.chance(0.03)) end = start + ticks;  // the full circle
    const bool two_turns = random.chance(style.two_turns);
    if (two_turns) end = start + random.between(ticks + 1, 2 * ticks);
    plan.rows.push_back(
        {.bytes = random.pick(style.sizes),
         .stream_index = static_cast<std::uint32_t>(random.between(0, style.streams - 1)),
         .varying = random.chance(style.varying),
         .end = end,
         .offset = kUnplanned,
         .alternate = kUnplanned});
  }
  std::vector<std::size_t> order(plan.rows.size());
  for (std::size_t at = 0; at < order.size(); ++at) order[at] = at;
  if (random.chance(0.5)) {
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return plan.rows[a].bytes > plan.rows[b].bytes;
    });
  }
  std::vector<FirstFit> parts(kMostStreams, FirstFit(ticks, style.alignment));
  for (const std::size_t at : order) {
    PlannedRequest& row = plan.rows[at];
    const Tick start = static_cast<Tick>(at);
    if (random.chance(style.persistent)) continue;
    FirstFit& fit = parts[row.stream_index];
    row.offset = fit.place(row.bytes, start, row.end);
    if (row.end > start + ticks) row.alternate = fit.place(row.bytes, start, row.end);
  }
  for (std::size_t part = 0; part < parts.size(); ++part) plan.heights[part] = parts[part].height();
  return plan;
}

// The offsets that each stream has in the plans of one program.
struct Layout {
  std::array<Offset, kMostStreams> begins;
  std::array<Bytes, kMostStreams> bytes;
  Bytes spill = 0;  // size and begin of the spilled range; 0: there is none
};

// Place the parts of the streams one after another, with gaps between some of them.
inline Layout lay_out(Random& random, std::vector<RandomPlan>& plans, const PlanStyle& style) {
  Layout layout{{}, {}, 0};
  Bytes all = 0;
  for (std::uint32_t stream = 0; stream < kMostStreams; ++stream) {
    Bytes most = 1;
    for (const RandomPlan& plan : plans) most = std::max(most, plan.heights[stream]);
    layout.bytes[stream] = (most + style.alignment - 1) / style.alignment * style.alignment;
    layout.begins[stream] = all;
    all += layout.bytes[stream];
    if (random.chance(0.2)) all += random.between(1, 9) * style.alignment;
  }
  for (RandomPlan& plan : plans) {
    plan.arena = all;
    for (PlannedRequest& row : plan.rows) {
      if (row.offset == kUnplanned) continue;
      row.offset += layout.begins[row.stream_index];
      if (row.alternate != kUnplanned) row.alternate += layout.begins[row.stream_index];
    }
  }
  return layout;
}

// Multiply the offsets of all parts, so that plans can grow.
inline void give_room(std::vector<RandomPlan>& plans, Layout& layout, Bytes times) {
  for (std::uint32_t stream = 0; stream < kMostStreams; ++stream) layout.bytes[stream] *= times;
  for (RandomPlan& plan : plans) {
    plan.arena *= times;
    for (PlannedRequest& row : plan.rows) {
      const Offset shift = (times - 1) * layout.begins[row.stream_index];
      if (row.offset != kUnplanned) row.offset += shift;
      if (row.alternate != kUnplanned) row.alternate += shift;
    }
  }
  for (Offset& begin : layout.begins) begin *= times;
}

// Spill some rows: move them into a second range of offsets, which is as large as the first.
inline void spill(Random& random, std::vector<RandomPlan>& plans, Layout& layout) {
  layout.spill = plans.front().arena;
  const double share = random.chance(0.2) ? 1 : 0.3;
  for (RandomPlan& plan : plans) {
    plan.arena *= 2;
    for (PlannedRequest& row : plan.rows) {
      if (row.offset == kUnplanned) continue;
      if (!random.chance(share)) continue;
      row.offset += layout.spill;
      if (row.alternate != kUnplanned) row.alternate += layout.spill;
    }
  }
}

}  // namespace pgmo::test

#include "engine/replay/stretch.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace pgmo {
namespace {

// How far the sizes of an iteration lie beyond those planned, as one request shows it.
class Growth {
 public:
  Growth(const PlannedRequest& request, Bytes bytes)
      : ratio_(static_cast<double>(bytes) / static_cast<double>(request.bytes)) {
    const auto planned = static_cast<double>(request.bytes);
    const auto shorter = static_cast<double>(request.shorter);
    steps_ = (static_cast<double>(bytes) - planned) / (planned - shorter);
    power_ = std::log(ratio_) / std::log(planned / shorter);
  }

  Bytes of(const PlannedRequest& request) const noexcept {
    if (!request.varying || request.shorter >= request.bytes) return request.bytes;
    const auto planned = static_cast<double>(request.bytes);
    const auto shorter = static_cast<double>(request.shorter);
    double size = planned * ratio_;
    if (request.shorter > 0) {
      size = std::max(planned + steps_ * (planned - shorter),
                      planned * std::pow(planned / shorter, power_));
    }
    size = std::ceil(size * (1 - 1e-12));  // without what rounding has added
    if (!(size < static_cast<double>(kLargestRequest))) return kLargestRequest;
    return std::max(request.bytes, static_cast<Bytes>(size));
  }

 private:
  double ratio_;
  double steps_;  // from the shorter one to the planned one is one
  double power_;
};

// How high the slots of before reach, at each tick: a segment tree that is only ever raised.
class Skyline {
 public:
  explicit Skyline(std::size_t ticks)
      : leaves_(std::bit_ceil(std::max<std::size_t>(ticks, 1))),
        whole_(2 * leaves_, 0),
        highest_(2 * leaves_, 0) {}

  Offset highest(std::size_t begin, std::size_t end) const {
    return look(1, 0, leaves_, begin, end);
  }
  void raise(std::size_t begin, std::size_t end, Offset to) {
    raise(1, 0, leaves_, begin, end, to);
  }

 private:
  Offset look(std::size_t node, std::size_t from, std::size_t to, std::size_t begin,
              std::size_t end) const {
    if (end <= from || to <= begin) return 0;
    if (begin <= from && to <= end) return highest_[node];
    const std::size_t middle = (from + to) / 2;
    return std::max({whole_[node], look(2 * node, from, middle, begin, end),
                     look(2 * node + 1, middle, to, begin, end)});
  }

  void raise(std::size_t node, std::size_t from, std::size_t to, std::size_t begin, std::size_t end,
             Offset height) {
    if (end <= from || to <= begin) return;
    highest_[node] = std::max(highest_[node], height);
    if (begin <= from && to <= end) {
      whole_[node] = std::max(whole_[node], height);
      return;
    }
    const std::size_t middle = (from + to) / 2;
    raise(2 * node, from, middle, begin, end, height);
    raise(2 * node + 1, middle, to, begin, end, height);
  }

  std::size_t leaves_;
  std::vector<Offset> whole_;    // of a node's ticks: each reaches as high as that, at least
  std::vector<Offset> highest_;  // of a node's ticks: the highest
};

// Of a request one of its slots, by the offset that it has so far.
struct Lying {
  Offset offset;
  std::uint32_t request;
  bool alternate;
  auto operator<=>(const Lying&) const = default;
};

std::vector<Lying> from_the_bottom(std::span<const PlannedRequest> plan) {
  std::vector<Lying> slots;
  slots.reserve(plan.size());
  for (std::uint32_t row = 0; row < plan.size(); ++row) {
    if (plan[row].offset != kUnplanned) slots.push_back({plan[row].offset, row, false});
    if (plan[row].alternate != kUnplanned) slots.push_back({plan[row].alternate, row, true});
  }
  std::sort(slots.begin(), slots.end());
  return slots;
}

}  // namespace

std::optional<std::vector<PlannedRequest>> stretch(std::span<const PlannedRequest> plan,
                                                   SlotIndex request, Bytes bytes,
                                                   Bytes alignment) {
  const PlannedRequest& asked = plan[request];
  if (asked.shorter <= 0 || asked.shorter >= asked.bytes || bytes <= asked.bytes) return {};
  const Growth growth(asked, bytes);
  std::vector<PlannedRequest> rows(plan.begin(), plan.end());
  for (PlannedRequest& row : rows) row.bytes = growth.of(row);
  rows[request].bytes = std::max(rows[request].bytes, bytes);

  const std::size_t ticks = plan.size();
  Skyline skyline(ticks);
  for (const Lying& lying : from_the_bottom(plan)) {
    PlannedRequest& row = rows[lying.request];
    std::size_t begin = lying.request;
    auto end = static_cast<std::size_t>(row.end);
    if (row.alternate != kUnplanned) {  // the other slot of the pair may be in use at any time
      begin = 0;
      end = ticks;
    }
    const std::size_t wrapped = end > ticks ? end - ticks : 0;
    const Offset reached =
        std::max(skyline.highest(begin, std::min(end, ticks)), skyline.highest(0, wrapped));
    const Offset offset = std::max(lying.offset, (reached + alignment - 1) / alignment * alignment);
    skyline.raise(begin, std::min(end, ticks), offset + row.bytes);
    skyline.raise(0, wrapped, offset + row.bytes);
    (lying.alternate ? row.alternate : row.offset) = offset;
  }
  return rows;
}

}  // namespace pgmo

#include "engine/replay/replay_plan.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <string>

namespace pgmo {
namespace {

constexpr std::size_t kMostRequests = std::size_t{1} << 30;

void check(bool holds, const char* what, std::size_t row) {
  if (!holds) throw std::invalid_argument("request " + std::to_string(row) + ": " + what);
}

}  // namespace

ReplayPlan::ReplayPlan(std::span<const PlannedRequest> requests, Bytes arena_bytes, Bytes alignment)
    : requests_(static_cast<std::uint32_t>(requests.size())), alignment_(alignment) {
  if (requests.size() > kMostRequests) throw std::invalid_argument("more than 2^30 requests");
  if (alignment < 1) throw std::invalid_argument("the alignment must be positive");

  std::size_t seconds = 0;
  const Tick ticks = static_cast<Tick>(requests.size());
  for (std::size_t row = 0; row < requests.size(); ++row) {
    const PlannedRequest& request = requests[row];
    const auto fits = [&](Offset offset) {
      return offset >= 0 && offset % alignment == 0 && request.bytes <= arena_bytes - offset;
    };
    check(request.bytes > 0 && request.bytes <= kLargestRequest, "the size is out of range", row);
    // The largest index would produce the key of all ones, which stands for no request.
    check(request.stream_index < (1u << (64 - kStreamShift)) - 1, "too many streams", row);
    if (request.offset == kUnplanned) {
      check(request.alternate == kUnplanned, "a second slot without a first", row);
      continue;
    }
    check(fits(request.offset), "the offset is outside the arena or not aligned", row);
    const Tick start = static_cast<Tick>(row);
    if (request.alternate == kUnplanned) {
      check(request.end > start && request.end <= start + ticks, "the lifetime is out of range",
            row);
    } else {
      check(fits(request.alternate), "the second offset is outside the arena or not aligned", row);
      check(request.end > start + ticks && request.end <= start + 2 * ticks,
            "a second slot for a lifetime of at most one iteration or more than two", row);
      ++seconds;
    }
  }

  const std::size_t slots = requests.size() + kSentinels + seconds;
  make_places(requests);
  slots_.reserve(slots);
  class_of_.assign(slots, kFixed);
  ends_by_slot_.assign(slots, 0);
  std::vector<Slot> second_slots;
  second_slots.reserve(seconds);
  for (std::size_t row = 0; row < requests.size(); ++row) {
    const PlannedRequest& request = requests[row];
    const RequestKey key = make_key(request.bytes, request.stream_index);
    Slot slot{.key = key, .place = kNowhere};
    if (request.offset != kUnplanned) slot.place = add_place(request.offset);
    if (request.alternate != kUnplanned) {
      slot.alternate = static_cast<SlotIndex>(requests.size() + kSentinels + second_slots.size());
      first_of_.push_back(static_cast<SlotIndex>(row));
      second_slots.push_back({.key = key, .place = add_place(request.alternate)});
    }
    slots_.push_back(slot);
    ends_by_slot_[row] = request.end;
  }
  classify(requests);
  index_anchors();
  index_sizes();
  // A sentinel behind the last request matches no key, because no request has a key of all ones.
  slots_.insert(slots_.end(), kSentinels, {.key = ~RequestKey{0}, .place = kNowhere});
  slots_.insert(slots_.end(), second_slots.begin(), second_slots.end());
  index_ends(requests);
  covered_ = union_of_slots();
}

void ReplayPlan::make_places(std::span<const PlannedRequest> requests) {
  std::vector<Offset> offsets;
  offsets.reserve(requests.size());
  for (const PlannedRequest& request : requests) {
    if (request.offset != kUnplanned) offsets.push_back(request.offset);
    if (request.alternate != kUnplanned) offsets.push_back(request.alternate);
  }
  std::sort(offsets.begin(), offsets.end());
  const auto different = std::unique(offsets.begin(), offsets.end()) - offsets.begin();
  const std::size_t cells = std::bit_ceil(std::max<std::size_t>(16, 2 * different));
  places_.resize(cells);
  place_shift_ = 64 - std::countr_zero(cells);
  place_mask_ = static_cast<std::uint32_t>(cells - 1);
}

std::uint32_t ReplayPlan::add_place(Offset offset) {
  const std::uint32_t at = find_place(offset);
  places_[at].offset = offset;
  return at;
}

void ReplayPlan::classify(std::span<const PlannedRequest> requests) {
  struct Member {
    RequestKey key;
    std::uint32_t family;
    std::size_t row;
    auto operator<=>(const Member&) const = default;
  };
  std::vector<Member> varying;
  for (std::size_t row = 0; row < requests.size(); ++row) {
    if (requests[row].varying) varying.push_back({slots_[row].key, requests[row].family, row});
  }
  std::sort(varying.begin(), varying.end());
  for (std::size_t at = 0; at < varying.size(); ++at) {
    classes_ += at == 0 || varying[at].key != varying[at - 1].key ||
                varying[at].family != varying[at - 1].family;
    class_of_[varying[at].row] = static_cast<SizeClass>(classes_ - 1);
  }
}

void ReplayPlan::index_anchors() {
  std::vector<Anchor> pairs;
  for (SlotIndex request = 1; request < requests_; ++request) {
    if (varying(request - 1) || varying(request)) continue;
    pairs.push_back({slots_[request - 1].key, slots_[request].key, request});
  }
  std::sort(pairs.begin(), pairs.end());
  for (std::size_t at = 0; at < pairs.size(); ++at) {
    const auto is_alike = [&](const Anchor& other) {
      return other.is_pair(pairs[at].previous, pairs[at].key);
    };
    if (at > 0 && is_alike(pairs[at - 1])) continue;
    if (at + 1 < pairs.size() && is_alike(pairs[at + 1])) continue;
    anchors_.push_back(pairs[at]);
  }
}

void ReplayPlan::index_sizes() {
  as_large_.assign(requests_, requests_);
  for (SlotIndex request = requests_; request-- > 0;) {
    SlotIndex next = request + 1;
    while (next < requests_ && key_bytes(slots_[next].key) < key_bytes(slots_[request].key)) {
      next = as_large_[next];
    }
    as_large_[request] = next;
  }
}

void ReplayPlan::index_ends(std::span<const PlannedRequest> requests) {
  const Tick ticks = static_cast<Tick>(requests.size());
  ends_.reserve(requests.size() + 1);
  for (std::size_t row = 0; row < requests.size(); ++row) {
    // No other slot overlaps a request's two slots, so their ends need no check.
    if (slots_[row].place == kNowhere || requests[row].alternate != kUnplanned) continue;
    ends_.push_back({static_cast<std::uint32_t>(requests[row].end % ticks),
                     static_cast<SlotIndex>(row), slots_[row].place});
  }
  std::stable_sort(ends_.begin(), ends_.end(),
                   [](const End& a, const End& b) { return a.tick < b.tick; });
  ends_.push_back({std::numeric_limits<std::uint32_t>::max(), kNoSlot, kNowhere});
}

std::vector<Range> ReplayPlan::union_of_slots() const {
  std::vector<Range> all;
  for (const Slot& slot : slots_) {
    if (slot.place == kNowhere) continue;
    const Offset begin = places_[slot.place].offset;
    all.push_back({begin, begin + key_bytes(slot.key)});
  }
  std::sort(all.begin(), all.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> joined;
  for (const Range& one : all) {
    if (!joined.empty() && one.begin <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, one.end);
    } else {
      joined.push_back(one);
    }
  }
  return joined;
}

SlotIndex ReplayPlan::anchor(RequestKey previous, RequestKey key) const noexcept {
  const auto found = std::lower_bound(anchors_.begin(), anchors_.end(), Anchor{previous, key, 0});
  const bool is_there = found != anchors_.end() && found->is_pair(previous, key);
  return is_there ? found->request : kNoSlot;
}

}  // namespace pgmo

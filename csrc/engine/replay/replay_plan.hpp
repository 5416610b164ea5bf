// A plan in the form that replay reads: one row (`Slot`) per request of the iteration, in order.
//
//     request   0     1     2     3     4          row: bytes and stream, offset, planned end
//               ▼
//            ┌─────┬─────┬─────┬─────┬─────┐
//            │slot │slot │ --- │slot │slot │       --- a request that is not planned (persistent)
//            └─────┴─────┴─────┴─────┴─────┘
//     ends    tick 2: slot 0;  tick 4: slots 1, 3; ...     planned ends, in the order of ticks
//     places  offset → the live block and its bytes             at most one, by the invariant
//
// Rows and ends are read from front to back once per iteration; only places are accessed at random.
// There are as many places as different offsets, far fewer than requests. So places stay in the
// CPU's cache even if a long plan does not.
//
// A block that lives longer than one iteration has two slots, used in turn. No other slot overlaps
// either of them. Sizes and offsets are in bytes. Only places change after construction; the
// engine's lock guards them.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checks.hpp"
#include "types.hpp"

namespace pgmo {

// Size and stream of a request in one word, so that matching takes one comparison.
using RequestKey = std::uint64_t;

constexpr RequestKey kNoKey = 0;  // matches no request, as each has at least one byte

constexpr int kStreamShift = 48;  // sizes below 256 TiB
constexpr Bytes kLargestRequest = (Bytes{1} << kStreamShift) - 1;
constexpr std::uint32_t kMostStreamIndices = 1u << (64 - kStreamShift);

constexpr RequestKey make_key(Bytes bytes, std::uint32_t stream_index) noexcept {
  return static_cast<RequestKey>(bytes) | static_cast<RequestKey>(stream_index) << kStreamShift;
}
constexpr Bytes key_bytes(RequestKey key) noexcept {
  return static_cast<Bytes>(key & kLargestRequest);
}
constexpr std::uint32_t key_stream(RequestKey key) noexcept {
  return static_cast<std::uint32_t>(key >> kStreamShift);
}

using SlotIndex = std::uint32_t;
constexpr SlotIndex kNoSlot = ~SlotIndex{0};

using SizeClass = std::uint32_t;
constexpr SizeClass kFixed = ~SizeClass{0};  // class of a request whose size does not vary

// One request of an iteration in a plan.
struct PlannedRequest {
  Bytes bytes;
  std::uint32_t stream_index;
  bool varying;   // its slot serves requests of every size up to `bytes`
  Tick end;       // exclusive; an end above the number of requests lies in the next iteration
  Offset offset;  // kUnplanned: no slot
  // Offset of the second slot, if the block is still live when the next iteration makes the same
  // request; kUnplanned: none.
  Offset alternate;
  std::uint32_t family = 0;  // varying requests of one family change their sizes together
};

struct Slot {
  RequestKey key;
  std::uint32_t place;            // index of its place; kNowhere: the request has no slot
  SlotIndex alternate = kNoSlot;  // the second slot of the same request
};
static_assert(sizeof(Slot) == 16);

// An offset of one or more slots, of which at most one is live.
struct alignas(32) Place {
  Offset offset = -1;          // -1: an empty cell of the hash table
  Bytes bytes = 0;             // bytes of the live slot; negative while it is late
  SlotIndex living = kNoSlot;  // the live slot
};
static_assert(sizeof(Place) == 32);

class ReplayPlan {
 public:
  // Throws std::invalid_argument if a size, offset, alignment or lifetime is out of range. The
  // constructor does not check that slots with a common tick are disjoint, although memory safety
  // depends on this: pgmo/packing/validator.py has checked it.
  ReplayPlan(std::span<const PlannedRequest> requests, Bytes arena_bytes, Bytes alignment);

  std::uint32_t requests() const noexcept { return requests_; }
  Bytes alignment() const noexcept { return alignment_; }

  const Slot& slot(SlotIndex index) const noexcept { return slots_[index]; }
  bool planned(SlotIndex index) const noexcept { return slots_[index].place != kNowhere; }
  bool varying(SlotIndex index) const noexcept { return class_of_[index] != kFixed; }

  // Return the size class of a varying request. A size class contains all requests of one family
  // with equal planned sizes and streams. Their requested sizes are usually equal, too.
  SizeClass size_class(SlotIndex index) const noexcept { return class_of_[index]; }
  std::size_t size_classes() const noexcept { return classes_; }

  // Return the request to which a slot belongs, for first and second slots.
  SlotIndex request_of(SlotIndex index) const noexcept {
    if (index < requests_) return index;
    return first_of_[index - requests_ - kSentinels];
  }

  // Return the offset of a planned slot.
  Offset offset_of(SlotIndex index) const noexcept { return places_[slots_[index].place].offset; }

  // Return the planned end of a request. Ends above `requests()` lie in the next iteration.
  Tick end_of(SlotIndex index) const noexcept { return ends_by_slot_[index]; }

  // Planned ends of slots, modulo the number of requests, sorted by tick. Requests with two slots
  // have no entry. The last entry is a sentinel whose tick is never reached.
  struct End {
    std::uint32_t tick;
    SlotIndex slot;
    std::uint32_t place;
  };
  const End* ends() const noexcept { return ends_.data(); }

  // Prefetch the place of the slot that comes kAhead requests after this one.
  void prefetch(SlotIndex index) const noexcept {
    __builtin_prefetch(&places_[slots_[index + kAhead].place & place_mask_], 1);
  }

  // Return the place of a planned slot.
  Place& place_of(const Slot& slot) noexcept {
    PGMO_ASSERT(slot.place != kNowhere);
    return places_[slot.place];
  }
  Place& place_of(const End& end) noexcept { return places_[end.place]; }

  // Return the place at an offset, or an empty cell if no slot begins there.
  Place& place_at(Offset offset) noexcept { return places_[find_place(offset)]; }

  template <typename Visit>
  void for_each_living(Visit&& visit) {
    for (Place& place : places_) {
      if (place.living != kNoSlot) visit(place);
    }
  }

  // Return the ranges of offsets that the slots cover, sorted and disjoint.
  std::span<const Range> covered() const noexcept { return covered_; }

  // Return the next request of at least the same size; `requests()` if there is none.
  SlotIndex next_as_large(SlotIndex request) const noexcept { return as_large_[request]; }

  // Return the only request with this key that follows a request with key `previous`, if both have
  // fixed sizes. Return kNoSlot if there is no such pair, or if there are several.
  SlotIndex anchor(RequestKey previous, RequestKey key) const noexcept;

 private:
  static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
  static constexpr Offset kNoOffset = -1;
  // Number of requests to prefetch ahead. They take about 200 ns, like an access to main memory.
  static constexpr SlotIndex kAhead = 8;
  // Number of empty rows after the last request, so that `prefetch` never reads beyond `slots_`.
  static constexpr std::size_t kSentinels = 16;
  static_assert(kSentinels > kAhead, "prefetch reads the row kAhead after the last request");

  struct Anchor {
    RequestKey previous;
    RequestKey key;
    SlotIndex request;  // the second of the pair
    bool is_pair(RequestKey first, RequestKey second) const noexcept {
      return previous == first && key == second;
    }
    auto operator<=>(const Anchor&) const = default;
  };

  std::uint32_t find_place(Offset offset) const noexcept {
    std::uint32_t at = static_cast<std::uint32_t>(
        (static_cast<std::uint64_t>(offset) >> 6) * 0x9E3779B97F4A7C15ull >> place_shift_);
    while (places_[at].offset != offset && places_[at].offset != kNoOffset) {
      at = (at + 1) & place_mask_;
    }
    return at;
  }
  void make_places(std::span<const PlannedRequest> requests);
  std::uint32_t add_place(Offset offset);
  std::vector<Range> union_of_slots() const;
  void index_ends(std::span<const PlannedRequest> requests);
  void classify(std::span<const PlannedRequest> requests);
  void index_anchors();
  void index_sizes();

  std::uint32_t requests_;
  Bytes alignment_;
  std::vector<Slot> slots_;          // one per request, then sentinels, then the second slots
  std::vector<SlotIndex> first_of_;  // the request of each second slot
  std::vector<SizeClass> class_of_;
  std::size_t classes_ = 0;
  std::vector<Tick> ends_by_slot_;
  std::vector<End> ends_;
  std::vector<Place> places_;
  int place_shift_;
  std::uint32_t place_mask_;
  std::vector<Anchor> anchors_;      // pairs that occur once, sorted
  std::vector<SlotIndex> as_large_;  // by request: see `next_as_large`
  std::vector<Range> covered_;
};

}  // namespace pgmo

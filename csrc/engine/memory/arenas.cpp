#include "engine/memory/arenas.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace pgmo {

const Arenas::Segment* Arenas::spilled() const noexcept {
  const auto found = std::find_if(segments_.begin(), segments_.end(),
                                  [](const Segment& segment) { return segment.spilled(); });
  return found == segments_.end() ? nullptr : &*found;
}

bool Arenas::has_room(std::uint32_t stream_index, Offset offset, Bytes bytes,
                      Bytes alignment) const noexcept {
  const auto holds = [&](const Segment& segment) {
    const Offset inside = offset - segment.begin;
    return inside >= 0 && inside % alignment == 0 &&
           inside + bytes <= static_cast<Bytes>(segment.arena.bytes);
  };
  if (const Segment* const spill = spilled(); spill && offset + bytes > spill->begin) {
    return holds(*spill);
  }
  for (const Segment& segment : segments_) {
    if (segment.stream_index == stream_index) return holds(segment);
  }
  return true;
}

void Arenas::add(const Segment& segment) {
  const pgmo_arena& arena = segment.arena;
  if (arena.base == nullptr || arena.bytes == 0 || arena.bytes > ~address_of(arena.base) ||
      segment.begin < 0 || segment.begin > kMostOffsets ||
      arena.bytes > static_cast<std::size_t>(kMostOffsets - segment.begin)) {
    throw std::invalid_argument("an arena of " + std::to_string(arena.bytes) +
                                " bytes at this address and offset is not a valid range of memory");
  }
  if (!segment.spilled() && segment.stream_index >= kMostStreams) {
    throw std::invalid_argument("more than " + std::to_string(kMostStreams) + " streams");
  }
  for (const Segment& other : segments_) {
    if (segment.stream_index == other.stream_index) {
      throw std::invalid_argument("this stream, or the spilled slots, have an arena already");
    }
    if (segment.spilled() != other.spilled() &&
        segment.spilled() != (segment.begin > other.begin)) {
      throw std::invalid_argument("the spill arena must have the highest offsets");
    }
    if (segment.begin < other.begin + static_cast<Bytes>(other.arena.bytes) &&
        other.begin < segment.begin + static_cast<Bytes>(arena.bytes)) {
      throw std::invalid_argument("two arenas share offsets");
    }
  }
  segments_.push_back(segment);
  const std::uintptr_t bias = address_of(arena.base) - static_cast<std::uintptr_t>(segment.begin);
  if (segment.spilled()) {
    spill_begin_ = segment.begin;
    spill_bias_ = bias;
  } else {
    biases_[segment.stream_index] = bias;
    without_ &= ~(std::uint64_t{1} << segment.stream_index);
  }
}

std::vector<pgmo_arena> Arenas::retire(LateSet& late) {
  std::vector<pgmo_arena> empty;
  empty.reserve(segments_.size());
  retired_.reserve(retired_.size() + segments_.size());
  std::vector<LateSet> parts;
  parts.reserve(segments_.size());
  for (const Segment& segment : segments_) {
    parts.push_back(late.part(segment.begin, static_cast<Bytes>(segment.arena.bytes)));
  }
  // Nothing below can fail.
  for (std::size_t at = 0; at < segments_.size(); ++at) {
    if (parts[at].empty()) {
      empty.push_back(segments_[at].arena);
    } else {
      retired_.push_back({segments_[at].arena, std::move(parts[at]), segments_[at].range});
    }
  }
  late = LateSet{};
  segments_.clear();
  spill_begin_ = std::numeric_limits<Offset>::max();
  spill_bias_ = 0;
  std::fill(std::begin(biases_), std::end(biases_), 0);
  without_ = ~std::uint64_t{0};
  return empty;
}

std::optional<Arenas::Released> Arenas::release_retired(std::uintptr_t address) noexcept {
  for (auto retired = retired_.begin(); retired != retired_.end(); ++retired) {
    if (!contains(retired->arena, address)) continue;
    Released released;
    const auto offset = static_cast<Offset>(address - address_of(retired->arena.base));
    released.bytes = retired->blocks.erase(offset);
    released.range = retired->range;
    if (retired->blocks.empty()) {
      released.empty = retired->arena;
      retired_.erase(retired);
    }
    return released;
  }
  return std::nullopt;
}

void Arenas::hold(LateSet& late, std::uintptr_t address, Bytes bytes) {
  if (const auto offset = offset_at(address)) return late.insert(*offset, bytes);
  for (Retired& retired : retired_) {
    if (!contains(retired.arena, address)) continue;
    return retired.blocks.insert(static_cast<Offset>(address - address_of(retired.arena.base)),
                                 bytes);
  }
}

pgmo_arena Arenas::release_held(LateSet& late, std::uintptr_t address) noexcept {
  if (const auto offset = offset_at(address)) {
    (void)late.erase(*offset);
    return {};
  }
  const auto released = release_retired(address);
  return released ? released->empty : pgmo_arena{};
}

bool Arenas::owns(std::uintptr_t address) const noexcept {
  return offset_at(address).has_value() ||
         std::any_of(retired_.begin(), retired_.end(),
                     [&](const Retired& retired) { return contains(retired.arena, address); });
}

Bytes Arenas::bytes() const noexcept {
  Bytes sum = 0;
  const auto add = [&](const auto& one) {
    if (one.range == nullptr) sum += static_cast<Bytes>(one.arena.bytes);
  };
  std::for_each(segments_.begin(), segments_.end(), add);
  std::for_each(retired_.begin(), retired_.end(), add);
  return sum;
}

}  // namespace pgmo

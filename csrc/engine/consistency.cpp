// Invariants of the engine that hold after any sequence of calls. Only assertions check them.

#include <algorithm>
#include <new>
#include <vector>

#include "engine/engine.hpp"

namespace pgmo {

// Requires the lock. If the check itself runs out of memory, it returns true: a check must not
// change what the program does.
bool Engine::consistent() noexcept try {
  if (replayer_ != nullptr && (selected_ >= plans_.size() || plans_[selected_].get() != replayer_))
    return false;
  if (plans_.size() != orders_.size() || plans_.size() != successors_.size()) return false;
  if (requests_so_far_ > heuristics_.look_ahead || settling_ < 0) return false;
  return slots_are_disjoint() && foreign_bytes() == blocks_.foreign.live;
} catch (const std::bad_alloc&) {
  return true;
}

// Return whether live slots are disjoint, lie in arenas, and have the total size that `slots_`
// counts. Includes late blocks and slots of retired arenas. Requires the lock.
bool Engine::slots_are_disjoint() {
  std::vector<pages::Extent> living;
  Bytes bytes = 0;
  bool owned = true;
  visit_slots([&](std::uintptr_t address, Bytes size) {
    living.push_back({address, size});
    bytes += size;
    owned = owned && arenas_.owns(address);
  });
  std::ranges::sort(living, {}, &pages::Extent::address);
  const auto overlap = [](const pages::Extent& one, const pages::Extent& next) {
    return one.end() > next.address;
  };
  const bool disjoint = std::ranges::adjacent_find(living, overlap) == living.end();
  return owned && disjoint && bytes == slots_.live;
}

Bytes Engine::foreign_bytes() const {
  Bytes sum = 0;
  blocks_.for_each_foreign([&](std::uintptr_t, Bytes bytes) { sum += bytes; });
  return sum;
}

}  // namespace pgmo

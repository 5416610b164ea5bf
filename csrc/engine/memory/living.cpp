// Lists all live slots and all tracked framework blocks.

#include <vector>

#include "engine/engine.hpp"

namespace pgmo {

using Guard = std::lock_guard<Spinlock>;

std::vector<Living> Engine::living() {
  std::vector<Living> all;
  const Guard guard(lock_);
  const auto add = [&](std::uintptr_t address, Bytes bytes, Living::Kind kind) {
    all.push_back({.address = address, .bytes = bytes, .kind = kind});
  };
  // The block table contains all tracked framework blocks, but not all slots.
  blocks_.for_each_foreign(
      [&](std::uintptr_t address, Bytes bytes) { add(address, bytes, Living::kForeign); });
  if (replayer_ != nullptr && arenas_.attached()) {
    replayer_->for_each_living([&](SlotIndex request, Offset offset, Bytes bytes) {
      const std::uint32_t stream = key_stream(replayer_->plan().slot(request).key);
      add(arenas_.address(stream, offset), bytes, Living::kSlot);
    });
  }
  arenas_.for_each_late(shared_.late, [&](std::uintptr_t address, Bytes bytes) {
    if (!is_returned(address)) add(address, bytes, Living::kLate);
  });
  return all;
}

}  // namespace pgmo

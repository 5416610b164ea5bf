// Blocks that move between two iterations: what is alive, and where it may go. The session decides
// and copies; see pgmo/allocator/adapters/relocation.py.

#include <vector>

#include "engine/engine.hpp"

namespace pgmo {

using Guard = std::lock_guard<Spinlock>;

std::vector<Living> Engine::living() {
  std::vector<Living> all;
  const Guard guard(lock_);
  const auto number_of = [&](const Tracked* block) {
    return block != nullptr && block->epoch == recorder_.epoch() ? block->block : Living::kNone;
  };
  // What the framework provides: only that is tracked in every mode.
  tracked_.for_each([&](std::uintptr_t address, const Tracked& block) {
    if (!block.foreign) return;
    const bool current = block.plan != Living::kNone && block.plan >> 8 == generation_;
    all.push_back({.address = address,
                   .bytes = block.bytes,
                   .block = number_of(&block),
                   .plan = current ? block.plan & 0xff : Living::kNone,
                   .request = current ? block.request : Living::kNone,
                   .kind = Living::kForeign});
  });
  const auto add = [&](std::uintptr_t address, Bytes bytes, Living::Kind kind) -> Living& {
    all.push_back({.address = address,
                   .bytes = bytes,
                   .block = number_of(tracked_.find(address)),
                   .plan = Living::kNone,
                   .request = Living::kNone,
                   .kind = kind});
    return all.back();
  };
  if (replayer_ != nullptr && arenas_.attached()) {
    replayer_->for_each_living([&](SlotIndex request, Offset offset, Bytes bytes) {
      const std::uint32_t stream = key_stream(replayer_->plan().slot(request).key);
      Living& block = add(arenas_.address(stream, offset), bytes, Living::kSlot);
      block.plan = selected_;
      block.request = request;
    });
  }
  arenas_.for_each_late(
      here_.late, [&](std::uintptr_t address, Bytes bytes) { add(address, bytes, Living::kLate); });
  here_.regions.for_each_living(
      [&](std::uintptr_t address, Bytes bytes) { add(address, bytes, Living::kRegion); });
  return all;
}

std::uintptr_t Engine::place_in_region(std::uint32_t region, Offset offset, Bytes bytes) {
  const Guard guard(lock_);
  const auto address = here_.regions.place(region, offset, bytes);
  if (!address) return 0;
  region_level_.add(bytes);
  if (check_) check_->allocated(*address, static_cast<std::uint64_t>(bytes), "region");
  return *address;
}

std::uintptr_t Engine::resettle(std::uint32_t request, Bytes bytes) {
  const Guard guard(lock_);
  if (replayer_ == nullptr || !arenas_.attached() || bytes <= 0) return 0;
  const Offset offset = replayer_->resettle(request, bytes);
  if (offset == kUnplanned) return 0;
  slots_.add(bytes);
  const std::uint32_t stream = key_stream(replayer_->plan().slot(request).key);
  const std::uintptr_t address = arenas_.address(stream, offset);
  if (check_) check_->allocated(address, static_cast<std::uint64_t>(bytes), "slot");
  return address;
}

}  // namespace pgmo

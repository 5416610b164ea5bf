// Live blocks by address: the owner of their memory, and their number in the recording.
//
//     request ──▶ slot of the engine ──────┐
//             └─▶ block of the framework ──┴─▶ table ──▶ recorder, while recording
//
// The table contains framework blocks that were allocated while the engine recorded or served.
// Nothing else in the engine tracks these blocks. Slots are in the table only if they were served
// while the engine recorded. Sizes are in bytes, as requested. All calls require the engine's lock.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "checks.hpp"
#include "engine/memory/address_map.hpp"
#include "engine/recording/live_check.hpp"
#include "engine/recording/recorder.hpp"
#include "engine/statistics.hpp"
#include "types.hpp"

namespace pgmo {

class BlockTable {
 public:
  // With PGMO_CHECK=1 in the environment, the table checks that no block overlaps a live block.
  BlockTable();

  // The engine starts, stops and reads the recorder. Only the table adds events of blocks.
  Recorder recorder;

  // Note for the check that a slot was chosen; `refused` undoes this if the slot gets no page.
  void chosen(std::uintptr_t address, Bytes bytes) noexcept {
    if (check_) [[unlikely]]
      check_->allocated(address, static_cast<std::uint64_t>(bytes), "slot");
  }
  void refused(std::uintptr_t address) noexcept {
    if (check_) [[unlikely]]
      check_->freed(address);
  }

  // Record a served slot. Requires an active recorder.
  void served(std::uintptr_t address, Bytes bytes, std::uint64_t stream) noexcept {
    PGMO_ASSERT(recorder.active());
    (void)insert(address, {.bytes = bytes, .stream = stream});
  }

  // Track a block of the framework, and record it if the recorder is active. `in_gap`: whether the
  // block fills a gap of framework memory. Return false if the host is out of memory.
  bool adopt(std::uintptr_t address, Bytes bytes, std::uint64_t stream, bool in_gap) noexcept;

  // A free takes two calls. `freeing` records the free before the block's memory is released.
  // `freed` removes the block's entry afterwards. `ours`: whether the block was a slot.
  void freeing(std::uintptr_t address) noexcept;
  void freed(std::uintptr_t address, bool ours) noexcept {
    if (!ours || recorder.active() || slots_ > 0) erase(address);
  }

  // Remove framework blocks in memory that has become an arena: their frees were not reported.
  void forget_within(std::uintptr_t begin, std::size_t bytes) noexcept;

  // Return whether the block belongs to another stream, or is unknown. `ours`: whether the block is
  // a slot. An outdated entry of the other kind counts as unknown.
  bool is_of_other_stream(std::uintptr_t address, std::uint64_t stream, bool ours) noexcept;

  // Return the bytes of the framework block at the address, or 0.
  Bytes foreign_at(std::uintptr_t address) noexcept {
    const Block* const block = find(address, false);
    return block == nullptr ? 0 : block->bytes;
  }

  // Record that another stream also uses the block.
  void shared(std::uintptr_t address, bool ours) noexcept;

  // Call `visit(address, bytes)` for each framework block.
  template <typename Visit>
  void for_each_foreign(Visit&& visit) const {
    blocks_.for_each([&](std::uintptr_t address, const Block& block) {
      if (block.foreign) visit(address, block.bytes);
    });
  }

  Level foreign;  // live bytes of the framework's blocks

 private:
  struct Block {
    Bytes bytes = 0;
    std::uint32_t number = Recorder::kNoBlock;  // in the recording of `epoch`
    std::uint32_t epoch = 0;
    std::uint64_t stream = 0;
    bool foreign = false;
  };

  bool insert(std::uintptr_t address, Block block, bool in_gap = false) noexcept;
  const Block* find(std::uintptr_t address, bool ours) noexcept;
  bool is_recorded(const Block& block) const noexcept {
    return recorder.active() && block.epoch == recorder.epoch() &&
           block.number != Recorder::kNoBlock;
  }
  void erase(std::uintptr_t address) noexcept;
  void count_gone(const Block& block) noexcept;

  AddressMap<Block> blocks_;
  std::size_t slots_ = 0;  // number of entries that are slots of the engine
  std::unique_ptr<LiveCheck> check_;
};

}  // namespace pgmo

// Live blocks by address: the owner of their memory and their number in the record.
//
//     request ──▶ slot of the engine's ───┐
//             └─▶ block of the framework's ┴─▶ table ──▶ recorder, while recording
//
// The table holds framework blocks in every mode, as nothing else tracks them, and slots only while
// recording. All calls require the engine's lock.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/memory/address_map.hpp"
#include "engine/recording/live_check.hpp"
#include "engine/recording/recorder.hpp"
#include "engine/statistics.hpp"
#include "types.hpp"

namespace pgmo {

class BlockTable {
 public:
  // If PGMO_CHECK is set, the table checks that no block overlaps a live one.
  BlockTable();

  // Start, stop and read the recorder directly. Events of blocks go through the table.
  Recorder recorder;

  // Pass a chosen slot to the check only; `refused` takes it back if the slot gets no page.
  void chosen(std::uintptr_t address, Bytes bytes) noexcept {
    if (check_) [[unlikely]]
      check_->allocated(address, static_cast<std::uint64_t>(bytes), "slot");
  }
  void refused(std::uintptr_t address) noexcept {
    if (check_) [[unlikely]]
      check_->freed(address);
  }

  // Record a served slot. Call it only while recording.
  void served(std::uintptr_t address, Bytes bytes, std::uint64_t stream) noexcept {
    (void)insert(address, {.bytes = bytes, .stream = stream});
  }

  // Record a block of the framework, which may lie in a gap of its own memory. Return false if no
  // memory is left to record it.
  bool adopt(std::uintptr_t address, Bytes bytes, std::uint64_t stream, bool in_gap) noexcept;

  // Freeing takes two calls. `freeing` records it while the block still owns its memory; `freed`
  // removes the entry after the owner has released the memory. `ours`: it was a slot.
  void freeing(std::uintptr_t address) noexcept;
  void freed(std::uintptr_t address, bool ours) noexcept {
    if (!ours || recorder.active() || slots_ > 0) erase(address);
  }

  // Remove framework blocks in memory that the framework has handed out as an arena.
  void forget_within(std::uintptr_t begin, std::size_t bytes) noexcept;

  // Return whether the block belongs to another stream, or is unknown. A framework block recorded
  // earlier at the address of a slot (`ours`) is ignored.
  bool is_of_other_stream(std::uintptr_t address, std::uint64_t stream, bool ours) noexcept;

  // Return the bytes of the framework block at the address, or 0.
  Bytes foreign_at(std::uintptr_t address) noexcept {
    const Block* const block = find(address, false);
    return block == nullptr ? 0 : block->bytes;
  }

  // Record that another stream uses the block, too.
  void shared(std::uintptr_t address, bool ours) noexcept;

  // Call `visit(address, bytes)` for each framework block.
  template <typename Visit>
  void for_each_foreign(Visit&& visit) const {
    blocks_.for_each([&](std::uintptr_t address, const Block& block) {
      if (block.foreign) visit(address, block.bytes);
    });
  }

  Level foreign;  // the framework's blocks

 private:
  struct Block {
    Bytes bytes = 0;
    std::uint32_t number = Recorder::kNoBlock;  // in the record of this epoch
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

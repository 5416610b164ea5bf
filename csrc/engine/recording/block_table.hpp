// The blocks that are alive, by address: whose memory they lie in, and their place in the record.
//
//     request ──▶ slot of the engine's ───┐
//             └─▶ block of the framework's ┴─▶ table ──▶ recorder, while one records
//
// Blocks of the framework's are here in every mode, as nothing else knows them; slots only while
// they are recorded. The engine's lock is held in all calls.

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
  // Checks that no block is handed out over a living one, where PGMO_CHECK says so.
  BlockTable();

  // To start, stop and read it. What happens to blocks goes through the table.
  Recorder recorder;

  // A slot has been chosen; only the check is told, as it may turn out to have no page.
  void chosen(std::uintptr_t address, Bytes bytes) noexcept {
    if (check_) [[unlikely]]
      check_->allocated(address, static_cast<std::uint64_t>(bytes), "slot");
  }
  void refused(std::uintptr_t address) noexcept {
    if (check_) [[unlikely]]
      check_->freed(address);
  }

  // The slot is served. To be called while one records.
  void served(std::uintptr_t address, Bytes bytes, std::uint64_t stream) noexcept {
    (void)insert(address, {.bytes = bytes, .stream = stream});
  }

  // The framework provides it, perhaps in a gap of its own. False: there is no memory to note it
  // in.
  bool adopt(std::uintptr_t address, Bytes bytes, std::uint64_t stream, bool in_gap) noexcept;

  // A block is freed: first it is noted, while its memory is still its own; then, when whoever owns
  // the memory has let go, it is forgotten. `ours`: it was a slot.
  void freeing(std::uintptr_t address) noexcept;
  void freed(std::uintptr_t address, bool ours) noexcept {
    if (!ours || recorder.active() || slots_ > 0) erase(address);
  }

  // The framework has handed out this memory as an arena: what it had there is gone.
  void forget_within(std::uintptr_t begin, std::size_t bytes) noexcept;

  // Whether the block is of another stream than this one, or unknown. What the framework had at the
  // address before it became the engine's says nothing about a slot (`ours`) there.
  bool is_of_other_stream(std::uintptr_t address, std::uint64_t stream, bool ours) noexcept;

  // Bytes of the framework's block there, or 0.
  Bytes foreign_at(std::uintptr_t address) noexcept {
    const Block* const block = find(address, false);
    return block == nullptr ? 0 : block->bytes;
  }

  // The block is used on another stream, too.
  void shared(std::uintptr_t address, bool ours) noexcept;

  // Calls `visit(address, bytes)` for each block of the framework's.
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
  std::size_t slots_ = 0;  // of them, those that lie in memory of the engine's
  std::unique_ptr<LiveCheck> check_;
};

}  // namespace pgmo

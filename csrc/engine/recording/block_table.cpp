#include "engine/recording/block_table.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

#include "checks.hpp"

namespace pgmo {
namespace {

bool check_requested() {
  const char* value = std::getenv("PGMO_CHECK");
  return value != nullptr && std::strcmp(value, "") != 0 && std::strcmp(value, "0") != 0;
}

}  // namespace

BlockTable::BlockTable() {
  if (check_requested()) check_ = std::make_unique<LiveCheck>();
}

bool BlockTable::adopt(std::uintptr_t address, Bytes bytes, std::uint64_t stream,
                       bool in_gap) noexcept {
  const Block block{.bytes = bytes, .stream = stream, .foreign = true};
  if (!insert(address, block, in_gap)) return false;
  foreign.add(bytes);
  if (check_) [[unlikely]]
    check_->allocated(address, static_cast<std::uint64_t>(bytes), "framework");
  return true;
}

void BlockTable::freeing(std::uintptr_t address) noexcept {
  if (check_) [[unlikely]]
    check_->freed(address);
  if (!recorder.active()) [[likely]]
    return;
  Block* const block = blocks_.find(address);
  if (block == nullptr) return;
  if (is_recorded(*block)) recorder.free(block->number);
  block->number = Recorder::kNoBlock;
}

bool BlockTable::insert(std::uintptr_t address, Block block, bool in_gap) noexcept {
  // The previous block at this address was freed without a call of `freeing`: raw blocks of a
  // framework have no deleter of pgmo.
  if (blocks_.find(address) != nullptr) [[unlikely]] {
    freeing(address);
    erase(address);
  }
  if (recorder.active()) {
    block.number = recorder.request(block.bytes, block.stream, in_gap);
    block.epoch = recorder.epoch();
  }
  try {
    blocks_.insert(address, block);
  } catch (const std::bad_alloc&) {
    return false;  // its recorded request has no free, so it gets no slot in a plan
  }
  if (!block.foreign) ++slots_;
  return true;
}

void BlockTable::erase(std::uintptr_t address) noexcept {
  const Block* const block = blocks_.find(address);
  if (block == nullptr) return;
  count_gone(*block);
  blocks_.erase(address);
}

void BlockTable::count_gone(const Block& block) noexcept {
  if (block.foreign) {
    foreign.remove(block.bytes);
  } else {
    PGMO_ASSERT(slots_ > 0);
    --slots_;
  }
}

void BlockTable::forget_within(std::uintptr_t begin, std::size_t bytes) noexcept {
  blocks_.erase_if([&](std::uintptr_t address, const Block& block) {
    const std::uintptr_t end = address + static_cast<std::uintptr_t>(block.bytes);
    if (!block.foreign || address >= begin + bytes || end <= begin) return false;
    freeing(address);
    count_gone(block);
    return true;
  });
}

const BlockTable::Block* BlockTable::find(std::uintptr_t address, bool ours) noexcept {
  const Block* const block = blocks_.find(address);
  return block == nullptr || block->foreign == ours ? nullptr : block;
}

bool BlockTable::is_of_other_stream(std::uintptr_t address, std::uint64_t stream,
                                    bool ours) noexcept {
  const Block* const block = find(address, ours);
  return block == nullptr || block->stream != stream;
}

void BlockTable::shared(std::uintptr_t address, bool ours) noexcept {
  const Block* const block = find(address, ours);
  if (block != nullptr && is_recorded(*block)) recorder.shared(block->number);
}

}  // namespace pgmo

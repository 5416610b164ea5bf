#include "baseline/baseline.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <vector>

namespace pgmo::baseline {

template <typename Change>
void Baseline::guarded(Change&& change) noexcept {
  const std::lock_guard guard(lock_);
  if (counted_.broken != 0) [[unlikely]]
    return;
  try {
    change();
  } catch (const std::bad_alloc&) {
    counted_.broken = 1;
  }
}

void Baseline::set_fraction(double fraction) noexcept {
  guarded([&] { model_.set_fraction(fraction); });
}

void Baseline::allocated(std::uintptr_t address, Bytes size, std::uint64_t stream,
                         std::uint64_t user_pool, bool beneath) noexcept {
  guarded([&] {
    // The free of a block that was alive when the model began may have been missed.
    if (Entry before; take_out(address, true, before) && before.block != nullptr) {
      model_.free(before.block);
    }
    Block* const block = model_.allocate(size, stream, user_pool);
    if (block == nullptr) ++counted_.failures;
    living_.insert(address, {block, static_cast<std::uint64_t>(size), beneath ? 1u : 0u});
    ++counted_.requests;
    add_live(size);
  });
}

void Baseline::freed(std::uintptr_t address, bool beneath) noexcept {
  guarded([&] {
    Entry entry;
    if (take_out(address, beneath, entry) && entry.block != nullptr) model_.free(entry.block);
  });
}

std::uint64_t Baseline::postponed(std::uintptr_t address) noexcept {
  std::uint64_t number = 0;
  guarded([&] {
    Entry entry;
    if (take_out(address, false, entry) && entry.block != nullptr) {
      number = model_.postpone(entry.block);
    }
  });
  return number;
}

void Baseline::settled(std::uint64_t number) noexcept {
  guarded([&] { model_.settle(number); });
}

bool Baseline::is_of_other_stream(std::uintptr_t address, std::uint64_t stream) noexcept {
  const std::lock_guard guard(lock_);
  const Entry* const entry = living_.find(address);
  return entry != nullptr && entry->beneath == 0 && entry->block != nullptr &&
         entry->block->pool->stream != stream;
}

void Baseline::failed(Bytes size, std::uint64_t stream) noexcept {
  guarded([&] {
    if (Block* const block = model_.allocate(size, stream)) model_.free(block);
  });
}

void Baseline::empty_cache() noexcept {
  guarded([&] { model_.empty_cache(); });
}

void Baseline::release_pool(std::uint64_t user_pool) noexcept {
  guarded([&] { model_.release_pool(user_pool); });
}

void Baseline::empty_pool(std::uint64_t user_pool) noexcept {
  guarded([&] { model_.empty_pool(user_pool); });
}

void Baseline::private_segments(Bytes change) noexcept {
  guarded([&] { model_.set_private(private_ += change); });
}

void Baseline::private_blocks(Bytes change) noexcept {
  guarded([&] { add_live(change); });
}

void Baseline::took(Bytes change) noexcept {
  const Bytes now = taken_.fetch_add(change, std::memory_order_relaxed) + change;
  Bytes peak = peak_taken_.load(std::memory_order_relaxed);
  while (now > peak && !peak_taken_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

void Baseline::add_segment(std::uint64_t stream, bool small, bool expandable,
                           std::span<const pgmo_baseline_piece> pieces) noexcept {
  guarded([&] {
    const std::vector<Block*> blocks = model_.add_segment(stream, small, expandable, pieces);
    for (std::size_t at = 0; at < pieces.size(); ++at) {
      const pgmo_baseline_piece& piece = pieces[at];
      if (piece.busy == 0) continue;
      living_.insert(piece.address, {blocks[at], static_cast<std::uint64_t>(piece.requested), 1});
      add_live(piece.requested);
    }
  });
}

pgmo_baseline_figures Baseline::figures() noexcept {
  const std::lock_guard guard(lock_);
  pgmo_baseline_figures now = counted_;
  now.reserved = model_.reserved();
  now.peak_reserved = model_.peak_reserved();
  now.retries = model_.retries();
  now.taken = taken_.load();
  now.peak_taken = peak_taken_.load();
  return now;
}

void Baseline::add_live(Bytes requested) noexcept {
  counted_.live += requested;
  counted_.peak_live = std::max(counted_.peak_live, counted_.live);
}

bool Baseline::take_out(std::uintptr_t address, bool beneath, Entry& out) noexcept {
  const Entry* const entry = living_.find(address);
  if (entry == nullptr || (entry->beneath != 0) != beneath) return false;
  out = *entry;
  living_.erase(address);
  counted_.live -= static_cast<Bytes>(out.requested);
  return true;
}

}  // namespace pgmo::baseline

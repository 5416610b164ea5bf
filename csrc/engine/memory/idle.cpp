// Idle pages of arenas: pages that no live block occupies.
//
//     arena    ░░░░░░░▓▓░░░░░░░░░░░▓▓▓▓░░░
//     pages    │    │    │    │    │    │
//              └──────┘    └──────┘            go back to the system; read as zeros afterwards
//
// If an arena is a block of the framework, its touched pages stay resident until they go back to
// the operating system. Blocks without a slot need memory in addition to these pages (lending.hpp).
// One live block would keep all pages of a retired arena resident.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <new>
#include <utility>
#include <vector>

#include "engine/engine.hpp"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace pgmo {

namespace {

// Limits of one batch: bytes, and number of ranges. The operating system needs 1 to 2 ms for a
// batch. No slot in the ranges of the batch is served meanwhile.
constexpr std::uintptr_t kAtOnce = std::uintptr_t{16} << 20;
constexpr std::size_t kMostAtOnce = 256;

std::uintptr_t page_bytes() noexcept {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return page;
}

// Collects whole pages of idle ranges, given in ascending order, up to the limits of a batch.
class IdlePageScan {
 public:
  IdlePageScan(std::uintptr_t from, std::vector<pages::Extent>& found)
      : from_(from), found_(found) {}

  // Add the pages of an idle range. Throws std::bad_alloc.
  void idle(std::uintptr_t begin, std::uintptr_t end) {
    const std::uintptr_t page = page_bytes();
    begin = std::max((begin + page - 1) / page * page, from_);
    end = end / page * page;
    if (begin >= end || stopped_) return;
    stopped_ = end - begin > left_;
    from_ = stopped_ ? begin + left_ : end;
    left_ -= from_ - begin;
    if (from_ > begin) found_.push_back({begin, static_cast<Bytes>(from_ - begin)});
    stopped_ = stopped_ || found_.size() == kMostAtOnce;
  }

  // `stopped`: a limit was reached. `from`: the address at which the next scan continues.
  bool stopped() const noexcept { return stopped_; }
  std::uintptr_t from() const noexcept { return from_; }

 private:
  std::uintptr_t from_;
  std::vector<pages::Extent>& found_;
  std::uintptr_t left_ = kAtOnce;
  bool stopped_ = false;
};

}  // namespace

Bytes Engine::return_idle() {
  const Bytes returned = return_pages(false);
  trim_malloc();
  return returned;
}

void Engine::lend_idle(bool on) {
  const Guard guard(lock_);
  lending_.set(on);
}

// Give malloc's free memory back to the operating system, because freed blocks that had no slot are
// part of it. Only one thread at a time may trim: if another malloc replaces glibc's, the first
// call of malloc_trim initializes glibc's malloc, and two concurrent calls would crash.
void Engine::trim_malloc() noexcept {
#ifdef __GLIBC__
  static std::atomic_flag trimming = ATOMIC_FLAG_INIT;
  if (trimming.test_and_set(std::memory_order_acquire)) return;
  ::malloc_trim(0);
  trimming.clear(std::memory_order_release);
#endif
}

// Give idle pages back during an iteration or a pause. Called before the program touches its new
// block, so that idle pages are gone before the block's pages become resident.
void Engine::lend() noexcept {
  try {
    return_pages(true);
    trim_malloc();
  } catch (const std::bad_alloc&) {
    // The pages stay resident. A retry at each request would fail again.
    const Guard guard(lock_);
    lending_.delay_next_return(blocks_.foreign.dense());
  }
}

// Measure how much of a block the program has touched, before the framework frees its memory.
void Engine::measure_touched(std::uintptr_t address, Bytes bytes) noexcept {
  const std::uintptr_t page = page_bytes();
  const std::uintptr_t begin = address / page * page;
  const std::size_t pages =
      (address + static_cast<std::uintptr_t>(bytes) - begin + page - 1) / page;
  std::size_t touched = 0;
  try {
    std::vector<unsigned char> resident(pages);
    if (::mincore(reinterpret_cast<void*>(begin), pages * page, resident.data()) != 0) return;
    touched = static_cast<std::size_t>(
        std::ranges::count_if(resident, [](unsigned char one) { return (one & 1) != 0; }));
  } catch (const std::bad_alloc&) {
    return;
  }
  const Guard guard(lock_);
  if (2 * touched >= pages) {
    most_dense_ = std::max(most_dense_, bytes);
  } else if (least_sparse_ == 0 || bytes < least_sparse_) {
    least_sparse_ = bytes;
  }
  count_sparse();
}

// Derive the threshold of sparse blocks from the blocks measured so far. If the threshold has
// changed, count sparse bytes again. With other sequence lengths, sparse blocks may be smaller and
// dense ones larger. So the threshold is the geometric mean of the smallest sparse and the largest
// dense size. Requires the lock.
void Engine::count_sparse() noexcept {
  Bytes from = kNoThreshold;
  if (least_sparse_ > most_dense_) {
    const auto dense = static_cast<double>(std::max(most_dense_, heuristics_.small_block));
    from = static_cast<Bytes>(std::sqrt(dense * static_cast<double>(least_sparse_)));
  }
  if (from == slots_.sparse_from) return;
  slots_.sparse_from = blocks_.foreign.sparse_from = from;
  slots_.sparse = blocks_.foreign.sparse = 0;
  visit_slots([&](std::uintptr_t, Bytes bytes) {
    if (bytes >= from) slots_.sparse += bytes;
  });
  blocks_.for_each_foreign([&](std::uintptr_t, Bytes bytes) {
    if (bytes >= from) blocks_.foreign.sparse += bytes;
  });
  lending_.restart();
}

Bytes Engine::sparse_from() noexcept {
  const Guard guard(lock_);
  return least_sparse_ > most_dense_ ? least_sparse_ : 0;
}

// Give all idle pages back to the operating system, in batches, and return their bytes. `serving`:
// include current arenas even while the engine serves. The lock is not held during system calls.
// During these calls each range is in the late set: no slot in the range is served, and its arena
// is not given back. A slot counts as live before the program gets its address, so its pages are
// not idle. If another thread is giving pages back, return at once.
Bytes Engine::return_pages(bool serving) {
  Bytes returned = 0;
  std::uintptr_t from = 0;
  std::vector<pgmo_arena> empty;
  empty.reserve(kMostAtOnce);  // reserved before any range is held
  for (bool more = true; more;) {
    {
      const Guard guard(lock_);
      if (!returning_.empty()) return returned;
      more = hold_idle(serving, from);
      // An empty `returning_` belongs to no thread, so do not read it without the lock.
      if (returning_.empty()) break;
    }
    for (const pages::Extent& range : returning_) {
      // If the system refuses, the pages stay resident.
      const auto bytes = static_cast<std::size_t>(range.bytes);
      if (::madvise(reinterpret_cast<void*>(range.address), bytes, MADV_DONTNEED) == 0) {
        returned += range.bytes;
      }
    }
    release_held_idle(empty);
    for (const pgmo_arena& arena : empty) give_back(arena);
    empty.clear();
  }
  const Guard guard(lock_);
  if (serving || !has(PGMO_SERVING)) {
    lending_.returned(slots_.dense(), blocks_.foreign.dense());
  }
  return returned;
}

// Fill `returning_` with a batch of idle ranges from address `from` on, and advance `from`. Return
// whether more idle ranges may follow. Requires the lock.
bool Engine::hold_idle(bool serving, std::uintptr_t& from) {
  std::vector<pages::Extent> living;
  visit_slots([&](std::uintptr_t address, Bytes bytes) { living.push_back({address, bytes}); });
  std::vector<pgmo_arena> idle;
  arenas_.for_each_retired([&](const pgmo_arena& arena) { idle.push_back(arena); });
  if (serving || !has(PGMO_SERVING)) {
    arenas_.for_each([&](const Arenas::Segment& segment) { idle.push_back(segment.arena); });
  }
  std::ranges::sort(living, {}, &pages::Extent::address);
  std::ranges::sort(idle, {}, [](const pgmo_arena& arena) { return address_of(arena.base); });
  std::vector<pages::Extent> found;
  IdlePageScan scan(from, found);
  for (const pgmo_arena& arena : idle) {
    std::uintptr_t idle_from = address_of(arena.base);
    for (const pages::Extent& block : living) {
      if (!contains(arena, block.address)) continue;
      scan.idle(idle_from, block.address);
      idle_from = block.end();
    }
    scan.idle(idle_from, address_of(arena.base) + arena.bytes);
  }
  std::size_t held = 0;
  try {
    for (; held < found.size(); ++held) {
      arenas_.hold(shared_.late, found[held].address, found[held].bytes);
    }
  } catch (const std::bad_alloc&) {
    while (held > 0) arenas_.release_held(shared_.late, found[--held].address);
    throw;
  }
  returning_ = std::move(found);
  from = scan.from();
  return scan.stopped();
}

// Remove the ranges in `returning_` from the late set. Append emptied retired arenas to `empty`.
void Engine::release_held_idle(std::vector<pgmo_arena>& empty) noexcept {
  const Guard guard(lock_);
  for (const pages::Extent& range : returning_) {
    const pgmo_arena arena = arenas_.release_held(shared_.late, range.address);
    if (arena.base != nullptr) empty.push_back(arena);  // capacity was reserved
  }
  returning_.clear();
}

}  // namespace pgmo

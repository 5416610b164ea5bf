// The memory of captured graphs: it belongs to a pool until the pool is released.
//
//     begin(id, filter) ── requests that the filter accepts ──▶ this pool's free blocks, or new
//     ones end(id)           ── later frees of its blocks ─────────▶ this pool's free blocks
//     release(id)       ── the free blocks now, the living ones when they are freed ──▶ the driver
//
// A replayed graph writes to the addresses that it was captured with, so no one else may ever get
// them. This is only the bookkeeping: it calls neither the driver nor the engine.

#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plugin/deferred_frees.hpp"

namespace pgmo::plugin {

class GraphPools {
 public:
  // As torch passes them to the hooks: c10::MempoolId_t, and a filter by value.
  using Id = std::pair<unsigned long long, unsigned long long>;
  using Filter = std::function<bool(Stream)>;

  void begin(Id id, Filter filter);
  void end(Id id);

  // One call for each `begin`; the last returns the blocks that the driver may have back.
  std::vector<Block> release(Id id);

  // The pool whose filter takes requests on this stream now; the latest first.
  std::optional<Id> accepting(Stream stream) const;

  // A free block of about this size, or nullptr: get a new one and `add` it.
  void* reuse(Id id, std::size_t bytes, Stream stream);
  void add(Id id, const Block& block);

  struct Freed {
    bool is_ours = false;
    bool to_driver = false;  // its pool has been released
    std::size_t bytes = 0;
  };
  // A block that other streams use is not reused while its pool lives.
  Freed free(void* pointer, bool used_elsewhere) noexcept;

  bool ever_used() const noexcept { return ever_used_.load(std::memory_order_relaxed); }

 private:
  struct Active {
    Id id;
    Filter filter;
  };
  struct Pool {
    int uses = 0;
    std::size_t living = 0;
    std::map<Stream, std::multimap<std::size_t, void*>> free;
    std::vector<Block> kept;  // not reused
  };
  struct Living {
    Id id;
    Block block;
  };

  bool deactivate(Id id);

  mutable std::mutex mutex_;
  // Replaced, never changed: filters are called without the lock.
  std::shared_ptr<const std::vector<Active>> active_ =
      std::make_shared<const std::vector<Active>>();
  std::map<Id, Pool> pools_;
  std::unordered_map<void*, Living> living_;
  std::atomic<std::size_t> living_count_{0};
  std::atomic<bool> ever_used_{false};
};

}  // namespace pgmo::plugin

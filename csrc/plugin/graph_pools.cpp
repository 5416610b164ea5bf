#include "plugin/graph_pools.hpp"

#include <algorithm>
#include <new>

namespace pgmo::plugin {
namespace {

// Of a request, that a larger free block may waste: 1 / this.
constexpr std::size_t kWaste = 8;

}  // namespace

void GraphPools::begin(Id id, Filter filter) {
  const std::lock_guard guard(mutex_);
  auto active = std::make_shared<std::vector<Active>>(*active_);
  active->push_back({id, std::move(filter)});
  Pool& pool = pools_[id];
  active_ = std::move(active);
  ++pool.uses;
  ever_used_.store(true, std::memory_order_relaxed);
  active_pools.fetch_add(1, std::memory_order_acq_rel);
}

void GraphPools::end(Id id) {
  const std::lock_guard guard(mutex_);
  (void)deactivate(id);
}

// False: it is not active.
bool GraphPools::deactivate(Id id) {
  const auto is_it = [&](const Active& one) { return one.id == id; };
  const auto found = std::find_if(active_->rbegin(), active_->rend(), is_it);
  if (found == active_->rend()) return false;
  auto active = std::make_shared<std::vector<Active>>(*active_);
  active->erase(active->begin() + (active_->rend() - found - 1));
  active_ = std::move(active);
  active_pools.fetch_sub(1, std::memory_order_acq_rel);
  return true;
}

std::vector<Block> GraphPools::release(Id id) {
  const std::lock_guard guard(mutex_);
  const auto found = pools_.find(id);
  if (found == pools_.end()) return {};
  Pool& pool = found->second;
  if (pool.uses > 0 && --pool.uses > 0) return {};
  while (deactivate(id)) {  // a capture that failed may have left it active
  }
  std::vector<Block> blocks = std::move(pool.kept);
  pool.kept.clear();
  for (const auto& [stream, free] : pool.free) {
    for (const auto& [bytes, pointer] : free) blocks.push_back({pointer, bytes, stream});
  }
  pool.free.clear();
  if (pool.living == 0) pools_.erase(found);
  return blocks;
}

std::optional<GraphPools::Id> GraphPools::accepting(Stream stream) const {
  std::shared_ptr<const std::vector<Active>> active;
  {
    const std::lock_guard guard(mutex_);
    active = active_;
  }
  for (auto one = active->rbegin(); one != active->rend(); ++one) {
    if (one->filter(stream)) return one->id;
  }
  return std::nullopt;
}

void* GraphPools::reuse(Id id, std::size_t bytes, Stream stream) {
  const std::lock_guard guard(mutex_);
  Pool& pool = pools_[id];
  auto& free = pool.free[stream];
  const auto found = free.lower_bound(bytes);
  if (found == free.end() || found->first > bytes + bytes / kWaste) return nullptr;
  void* pointer = found->second;
  living_.insert({pointer, {id, {pointer, found->first, stream}}});
  living_count_.store(living_.size(), std::memory_order_release);
  free.erase(found);
  ++pool.living;
  return pointer;
}

void GraphPools::add(Id id, const Block& block) {
  const std::lock_guard guard(mutex_);
  Pool& pool = pools_[id];
  living_.insert({block.pointer, {id, block}});
  living_count_.store(living_.size(), std::memory_order_release);
  ++pool.living;
}

GraphPools::Freed GraphPools::free(void* pointer, bool used_elsewhere) noexcept {
  if (living_count_.load(std::memory_order_acquire) == 0) return {};
  const std::lock_guard guard(mutex_);
  const auto found = living_.find(pointer);
  if (found == living_.end()) return {};
  const auto [id, block] = found->second;
  living_.erase(found);
  living_count_.store(living_.size(), std::memory_order_release);
  Freed freed{.is_ours = true, .to_driver = false, .bytes = block.bytes};
  const auto pool = pools_.find(id);
  --pool->second.living;
  if (pool->second.uses == 0) {
    freed.to_driver = true;
    if (pool->second.living == 0) pools_.erase(pool);
    return freed;
  }
  try {
    if (used_elsewhere) {
      pool->second.kept.push_back(block);
    } else {
      pool->second.free[block.stream].insert({block.bytes, pointer});
    }
  } catch (const std::bad_alloc&) {
    // Lost for the process. The driver must not have it: a graph may still write there.
  }
  return freed;
}

}  // namespace pgmo::plugin

#include "packing/search/monitor.hpp"

#include <utility>

namespace pgmo::packing {

Monitor::Monitor(Offsets offsets, Bytes arena, Bytes bound, Clock::time_point deadline)
    : deadline_(deadline), arena_(arena), bound_(bound), offsets_(std::move(offsets)) {}

bool Monitor::stopped() const {
  return stop_.load(std::memory_order_relaxed) || arena() <= bound() || Clock::now() >= deadline_;
}

void Monitor::offer(const Offsets& offsets, Bytes arena) {
  if (arena >= this->arena()) return;
  const std::lock_guard lock(mutex_);
  if (arena >= arena_.load()) return;  // another thread was faster
  offsets_ = offsets;
  arena_.store(arena);
  record();
}

void Monitor::raise_bound(Bytes bound) {
  if (bound <= this->bound()) return;
  const std::lock_guard lock(mutex_);
  if (bound <= bound_.load()) return;
  bound_.store(bound);
  record();
}

Offsets Monitor::offsets() const {
  const std::lock_guard lock(mutex_);
  return offsets_;
}

std::vector<Progress> Monitor::take_progress() {
  const std::lock_guard lock(mutex_);
  return std::exchange(progress_, {});
}

void Monitor::record() {
  const std::chrono::duration<double> passed = Clock::now() - started_;
  progress_.push_back({passed.count(), arena_.load(), bound_.load()});
}

}  // namespace pgmo::packing

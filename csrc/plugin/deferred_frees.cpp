#include "plugin/deferred_frees.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace pgmo::plugin {

void StreamUses::add(void* pointer, Stream stream) {
  const std::lock_guard guard(mutex_);
  std::vector<Stream>& streams = uses_[pointer];
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
  count_.store(uses_.size(), std::memory_order_release);
}

std::vector<Stream> StreamUses::take(void* pointer, Stream own) noexcept {
  if (count_.load(std::memory_order_acquire) == 0) return {};
  const std::lock_guard guard(mutex_);
  const auto found = uses_.find(pointer);
  if (found == uses_.end()) return {};
  std::vector<Stream> streams = std::move(found->second);
  uses_.erase(found);
  count_.store(uses_.size(), std::memory_order_release);
  std::erase(streams, own);
  return streams;
}

bool DeferredFrees::add(const Block& block, bool is_slot, std::vector<Stream> streams) noexcept {
  const std::lock_guard guard(mutex_);
  try {
    waiting_.push_back({block, is_slot, {}});
  } catch (const std::bad_alloc&) {
    memory_.synchronize();
    return false;
  }
  waiting_.back().unmarked = std::move(streams);
  mark(waiting_.back());
  count_.store(waiting_.size(), std::memory_order_release);
  return true;
}

std::list<DeferredFrees::Waiting> DeferredFrees::poll() noexcept {
  std::list<Waiting> done;
  if (count() == 0) return done;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return done;  // another thread is at it
  const DriverScope scope(memory_.functions(), memory_.context());
  for (Waiting& waiting : waiting_) {
    if (!waiting.unmarked.empty()) mark(waiting);
  }
  for (auto& [stream, marks] : marks_) {
    // Only success counts: after an error of the device nothing may be taken for finished.
    while (!marks.empty() && memory_.functions().query_event(marks.front().event) == kSuccess) {
      --marks.front().waiting->pending;
      keep_event(marks.front().event);
      marks.pop_front();
    }
  }
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const auto here = at++;
    if (here->pending == 0 && here->unmarked.empty()) done.splice(done.end(), waiting_, here);
  }
  count_.store(waiting_.size(), std::memory_order_release);
  return done;
}

// Records an event on each stream that is not in capture; an event that is captured tells nothing.
void DeferredFrees::mark(Waiting& waiting) noexcept {
  const DriverScope scope(memory_.functions(), memory_.context());
  std::erase_if(waiting.unmarked, [&](Stream stream) {
    if (memory_.is_capturing(stream)) return false;
    if (!record(waiting, stream)) memory_.synchronize(stream);
    return true;
  });
}

bool DeferredFrees::record(Waiting& waiting, Stream stream) noexcept {
  const Event event = take_event();
  if (event == nullptr) return false;
  try {
    // Fails for a stream of another device.
    if (memory_.functions().record_event(event, stream) == kSuccess) {
      marks_[stream].push_back({event, &waiting});
      ++waiting.pending;
      return true;
    }
  } catch (const std::bad_alloc&) {
  }
  keep_event(event);
  return false;
}

Event DeferredFrees::take_event() noexcept {
  Event event = nullptr;
  if (!spare_events_.empty()) {
    event = spare_events_.back();
    spare_events_.pop_back();
  } else if (memory_.functions().create_event(&event, kEventWithoutTiming) != kSuccess) {
    event = nullptr;
  }
  return event;
}

void DeferredFrees::keep_event(Event event) noexcept {
  try {
    spare_events_.push_back(event);
  } catch (const std::bad_alloc&) {
    (void)memory_.functions().destroy_event(event);
  }
}

}  // namespace pgmo::plugin

// Torch's memory history (stacks and traces) for slots and blocks of windows.
//
//     recordHistory ──▶ History, and the allocator beneath     slots, windows ──▶ History
//     snapshot      ◀── traces of both, merged by time
//
// Only device.hpp includes this file.

#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/ApproximateClock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

constexpr int kMostDevices = 16;

// Recorder of stacks and traces, for all devices. Thread-safe. Takes no lock under its own.
class History {
 public:
  using Action = TraceEntry::Action;
  using Context = std::invoke_result_t<CreateContextFn>;

  std::mutex& mutex() { return mutex_; }  // for forks
  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }

  // Start or stop recording, with the arguments of torch's recordHistory. `most`: maximum number of
  // entries per device. `left_out`: names of actions that are not recorded.
  void set(bool enabled, CreateContextFn recorder, size_t most, RecordContext when, bool clear,
           const std::vector<std::string>& left_out) {
    const std::lock_guard guard(mutex_);
    enabled_.store(enabled);
    recorder_.store(enabled ? recorder : nullptr);
    when_.store(enabled ? when : RecordContext::NEVER);
    most_ = std::max<size_t>(most, 1);
    left_out_ = left_out;
    if (enabled && !clear) return;
    for (auto& trace : traces_) trace.clear();
    if (!enabled) known_.clear();
  }

  // Record an allocation. The caller holds no lock: gathering a stack may wait for the GIL.
  void note_allocation(int device, void* block, size_t bytes, cudaStream_t stream) {
    const CreateContextFn recorder = recorder_.load();
    const RecordContext when = when_.load();
    Context context;
    if (recorder != nullptr && when >= RecordContext::STATE) context = recorder();
    const std::lock_guard guard(mutex_);
    if (!enabled()) return;
    known_[block] = {context, bytes};
    if (when < RecordContext::ALLOC) context = nullptr;
    add("alloc", Action::ALLOC, device, block, bytes, stream, std::move(context));
  }

  // Record a free by the program; other streams may still use the block. The caller holds no lock.
  void note_free_request(int device, void* block, size_t bytes) {
    const CreateContextFn recorder = recorder_.load();
    Context context;
    if (recorder != nullptr && when_.load() >= RecordContext::ALL) context = recorder();
    const std::lock_guard guard(mutex_);
    add("free_requested", Action::FREE_REQUESTED, device, block, bytes, nullptr,
        context ? std::move(context) : allocation_stack(block));
  }

  // Record that the block's memory may be reused.
  void note_release(int device, void* block, size_t bytes) {
    const std::lock_guard guard(mutex_);
    add("free_completed", Action::FREE_COMPLETED, device, block, bytes, nullptr,
        allocation_stack(block));
    known_.erase(block);
  }

  // Stack and requested bytes of a live block.
  struct Known {
    Context context;
    size_t bytes = 0;  // 0: not recorded
  };
  Known known(void* block) {
    const std::lock_guard guard(mutex_);
    const auto found = known_.find(block);
    return found == known_.end() ? Known{} : found->second;
  }

  // Merge this device's trace into `all`, the trace of the allocator beneath, by time. Only the
  // latest entries remain, up to the number that was passed to `set`.
  void add_to(int device, std::vector<TraceEntry>& all) {
    const std::lock_guard guard(mutex_);
    const auto to_nanoseconds = converter_.makeConverter();
    const auto beneath = static_cast<std::ptrdiff_t>(all.size());
    for (TraceEntry entry : traces_[static_cast<size_t>(device)]) {
      entry.time_.t_ = to_nanoseconds(entry.time_.approx_t_) / 1000;
      all.push_back(std::move(entry));
    }
    std::inplace_merge(all.begin(), all.begin() + beneath, all.end(),
                       [](const TraceEntry& one, const TraceEntry& other) {
                         return one.time_.t_ < other.time_.t_;
                       });
    if (all.size() > most_) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(most_));
  }

 private:
  // Return the stack of the block's allocation, if frees are recorded with stacks.
  Context allocation_stack(void* block) const {
    const auto found = known_.find(block);
    const bool wanted = when_.load() >= RecordContext::ALLOC && found != known_.end();
    return wanted ? found->second.context : nullptr;
  }

  // Make an entry of the trace. Later versions of torch also store the pool.
  template <typename Entry>
  static Entry made(Action action, int device, void* block, size_t bytes, cudaStream_t stream,
                    Context context) {
    using Pool = c10::cuda::MempoolId_t;
    const auto index = static_cast<c10::DeviceIndex>(device);
    const auto address = reinterpret_cast<size_t>(block);
    const auto now = c10::getApproximateTime();
    if constexpr (std::is_constructible_v<Entry, Action, c10::DeviceIndex, size_t, size_t,
                                          cudaStream_t, Pool, c10::approx_time_t, Context>) {
      return {action, index, address, bytes, stream, Pool{0, 0}, now, std::move(context)};
    } else {
      return {action, index, address, bytes, stream, now, std::move(context)};
    }
  }

  void add(const char* name, Action action, int device, void* block, size_t bytes,
           cudaStream_t stream, Context context) {
    if (!enabled() || std::find(left_out_.begin(), left_out_.end(), name) != left_out_.end()) {
      return;
    }
    auto& trace = traces_[static_cast<size_t>(device)];
    if (trace.size() >= most_) trace.pop_front();
    trace.push_back(made<TraceEntry>(action, device, block, bytes, stream, std::move(context)));
  }

  std::atomic<bool> enabled_{false};
  std::atomic<CreateContextFn> recorder_{nullptr};
  std::atomic<RecordContext> when_{RecordContext::NEVER};
  std::mutex mutex_;  // guards the following members
  size_t most_ = 1;
  std::vector<std::string> left_out_;
  std::unordered_map<void*, Known> known_;
  std::array<std::deque<TraceEntry>, kMostDevices> traces_;
  c10::ApproximateClockToUnixTimeConverter converter_;
};

History& history() {
  // Never destroyed, because stacks may belong to an interpreter that exits earlier.
  static auto* const one = new History;
  return *one;
}

// Follow a call of torch's recordHistory. Later versions of torch pass more arguments: whether to
// clear, and the actions to leave out.
template <typename... More>
void note_history(bool enabled, CreateContextFn recorder, size_t most, RecordContext when,
                  const More&... more) {
  bool clear = false;
  std::vector<std::string> left_out;
  const auto take = [&](const auto& one) {
    if constexpr (std::is_same_v<std::decay_t<decltype(one)>, bool>) {
      clear = one;
    } else {
      left_out = one;
    }
  };
  (take(more), ...);
  history().set(enabled, recorder, most, when, clear, left_out);
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo

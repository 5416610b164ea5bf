// Tracks which threads request memory, and which are delegated to the framework.
//
//     request    A A A B B A | A A A        | iteration ends
//     ordinal    1 2 3 4 5 6 | 1 2 3
//     of A       first 1, last 6, count 4 | ...
//     of B       first 4, last 5, count 2 | nothing
//
// When several threads train at the same time, their requests interleave in an order that no plan
// can predict. The session detects this from these counts, follows one of the threads, and
// delegates the other threads: the engine leaves their requests to the framework.
//
// A ThreadId is the system's thread id, which Python knows too. The system reuses ids, so the
// delegation of a thread must end before the thread does. Calls require the engine's lock, except
// `own` and `forget_own`.

#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pgmo {

using ThreadId = std::int64_t;

class Threads {
 public:
  // Requests of one thread in this iteration: their number, and the ordinals of the first and the
  // last of them. Ordinals count the requests of all threads, from 1.
  struct Activity {
    ThreadId thread;
    std::uint64_t first;
    std::uint64_t last;
    std::uint64_t count;
  };

  // Return the id of the calling thread.
  static ThreadId own() noexcept {
    ThreadId& id = cached();
    if (id == 0) [[unlikely]]
      id = static_cast<ThreadId>(syscall(SYS_gettid));
    return id;
  }

  // Drop the cached id. Call it in a forked child, where the thread has a new id.
  static void forget_own() noexcept { cached() = 0; }

  bool is_delegated(ThreadId thread) const noexcept {
    return !delegated_.empty() &&
           std::find(delegated_.begin(), delegated_.end(), thread) != delegated_.end();
  }

  // Delegate a thread, or end its delegation. Throws std::bad_alloc.
  void delegate(ThreadId thread, bool on) {
    std::erase(delegated_, thread);
    if (on) delegated_.push_back(thread);
  }

  void delegate_none() noexcept { delegated_.clear(); }

  // Count a request of a thread. Only the first `kMost` threads of an iteration get an Activity.
  void note(ThreadId thread) noexcept {
    ++ordinal_;
    if (latest_ < count_ && active_[latest_].thread == thread) [[likely]] {
      active_[latest_].last = ordinal_;
      ++active_[latest_].count;
    } else {
      note_another(thread);
    }
  }

  std::span<const Activity> active() const noexcept { return std::span(active_).first(count_); }

  void end_iteration() noexcept {
    count_ = 0;
    ordinal_ = 0;
  }

 private:
  static constexpr std::size_t kMost = 64;

  static ThreadId& cached() noexcept {
    thread_local ThreadId id = 0;
    return id;
  }

  void note_another(ThreadId thread) noexcept {
    for (latest_ = 0; latest_ < count_; ++latest_) {
      Activity& one = active_[latest_];
      if (one.thread != thread) continue;
      one.last = ordinal_;
      ++one.count;
      return;
    }
    if (count_ < kMost) active_[count_++] = {thread, ordinal_, ordinal_, 1};
  }

  std::array<Activity, kMost> active_{};
  std::size_t count_ = 0;
  std::vector<ThreadId> delegated_;
  std::uint64_t ordinal_ = 0;
  std::size_t latest_ = 0;  // index of the thread of the latest request
};

}  // namespace pgmo

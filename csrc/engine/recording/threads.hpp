// Which threads request memory, and which of them are left to the framework.
//
//     request    A A A B B A | A A A        | iteration ends
//     ordinal    1 2 3 4 5 6 | 1 2 3
//     of A       first 1, last 6, count 4 | ...
//     of B       first 4, last 5, count 2 | nothing
//
// An iteration is one thread's work. When several threads train at the same time, their requests
// mingle in an order that no plan can predict; from this account the session learns that they do.
// All but one are then delegated: the engine does not hear of their requests.
//
// Threads go by the number that the system gives them, which Python knows, too. It is given again
// when a thread has ended, so whoever delegates one takes that back at its end.

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
  // What a thread has requested in this iteration; ordinals of its first and last request there.
  struct Activity {
    ThreadId thread;
    std::uint64_t first;
    std::uint64_t last;
    std::uint64_t count;
  };

  // Of the calling thread.
  static ThreadId own() noexcept {
    ThreadId& id = cached();
    if (id == 0) [[unlikely]]
      id = static_cast<ThreadId>(syscall(SYS_gettid));
    return id;
  }

  // To be called in a forked child, whose thread has another number than it had.
  static void forget_own() noexcept { cached() = 0; }

  bool is_delegated(ThreadId thread) const noexcept {
    return !delegated_.empty() &&
           std::find(delegated_.begin(), delegated_.end(), thread) != delegated_.end();
  }

  // Throws std::bad_alloc.
  void delegate(ThreadId thread, bool on) {
    std::erase(delegated_, thread);
    if (on) delegated_.push_back(thread);
  }

  void delegate_none() noexcept { delegated_.clear(); }

  // A request. When there is no room for one more thread, it is left out.
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
  std::size_t latest_ = 0;  // the place of the thread that has requested last
};

}  // namespace pgmo

// One fork() handler for all locks of pgmo. It takes them in the order of their ranks.
//
//     rank       locks                                          taken while one of them is held
//     kAdapter   adapters: held while pages, engine, or torch   all that follow
//                are called
//     kWork      pages: `work`, around calls of the driver      all that follow
//     kEngine    each engine's spinlock                         none
//     kState     pages: `state`                                 none
//     kLeaf      adapters: all others; csrc/baseline            none
//
//     fork       prepare: from the first to the last ──▶ fork ──▶ parent, child: backwards
//
// pthread_atfork calls handlers in registration order. Separate handlers would take locks in an
// order that depends on what the program did first. So there is one handler, and each owner of
// locks registers a ForkLock. In the child, every lock is free. A thread holds at most one lock of
// each rank, except of kAdapter: the adapter defines the order of its kAdapter locks. Adapters
// register through pgmo_pages.h.

#pragma once

#include <pthread.h>

#include <mutex>

namespace pgmo {

enum class ForkRank : int { kAdapter, kWork, kEngine, kState, kLeaf };

// Registers locks that each fork takes and frees while this object exists. The thread that destroys
// the object must hold no lock of the table above.
class ForkLock {
 public:
  using Take = void (*)(void* context);
  using Free = void (*)(void* context, int child);  // `child`: non-zero in the child

  ForkLock(ForkRank rank, void* context, Take take, Free free);
  ~ForkLock();
  ForkLock(const ForkLock&) = delete;
  ForkLock& operator=(const ForkLock&) = delete;

 private:
  friend class Forks;

  const ForkRank rank_;
  void* const context_;
  const Take take_;
  const Free free_;
  bool taken_ = false;
  ForkLock* next_ = nullptr;
  ForkLock* previous_ = nullptr;
};

class Forks {
 public:
  static Forks& get() {
    static Forks* const only = new Forks;  // outlives every static destructor
    return *only;
  }

  // May be called with ranked locks held: `prepare` never waits for a lock while it holds `list_`.
  void add(ForkLock& lock) noexcept {
    const std::lock_guard guard(list_);
    ForkLock* before = last_;
    while (before != nullptr && before->rank_ > lock.rank_) before = before->previous_;
    lock.previous_ = before;
    lock.next_ = before == nullptr ? first_ : before->next_;
    (lock.next_ == nullptr ? last_ : lock.next_->previous_) = &lock;
    (before == nullptr ? first_ : before->next_) = &lock;
  }

  // Wait for a fork in progress, then remove the lock. The caller must hold no registered lock.
  void remove(ForkLock& lock) noexcept {
    const std::lock_guard forking(forking_);
    const std::lock_guard guard(list_);
    (lock.next_ == nullptr ? last_ : lock.next_->previous_) = lock.previous_;
    (lock.previous_ == nullptr ? first_ : lock.previous_->next_) = lock.next_;
  }

 private:
  Forks() {
    (void)pthread_atfork([] { get().prepare(); }, [] { get().go_on(false); },
                         [] { get().go_on(true); });
  }

  // Returns with `list_` locked.
  void prepare() noexcept {
    forking_.lock();
    for (;;) {
      list_.lock();
      ForkLock* next = first_;
      while (next != nullptr && next->taken_) next = next->next_;
      if (next == nullptr) return;
      bool in_order = true;
      for (const ForkLock* one = next; one != nullptr; one = one->next_) in_order &= !one->taken_;
      list_.unlock();
      if (!in_order) {  // `next` was added after locks of higher ranks had been taken
        free_all(false);
        continue;
      }
      next->take_(next->context_);
      next->taken_ = true;
    }
  }

  void go_on(bool child) noexcept {
    list_.unlock();
    free_all(child);
    forking_.unlock();
  }

  void free_all(bool child) noexcept {
    for (ForkLock* lock = newest_taken(); lock != nullptr; lock = newest_taken()) {
      lock->taken_ = false;
      lock->free_(lock->context_, child);
    }
  }

  ForkLock* newest_taken() noexcept {
    const std::lock_guard guard(list_);
    ForkLock* lock = last_;
    while (lock != nullptr && !lock->taken_) lock = lock->previous_;
    return lock;
  }

  std::mutex forking_;         // held from `prepare` to `go_on`; taken before `list_`
  std::mutex list_;            // no other lock is taken under it
  ForkLock* first_ = nullptr;  // in the order of ranks
  ForkLock* last_ = nullptr;
};

inline ForkLock::ForkLock(ForkRank rank, void* context, Take take, Free free)
    : rank_(rank), context_(context), take_(take), free_(free) {
  Forks::get().add(*this);
}

inline ForkLock::~ForkLock() {
  Forks::get().remove(*this);
}

}  // namespace pgmo

// Reports the operators that an observed thread runs, without changing how they run.
//
//     aten::linear            composite: not reported, because it only calls other operators
//       aten::addmm           begin("aten::addmm") ... end()
//         aten::empty         inside of a reported operator: not reported
//
// A dispatch mode in Python would see the same operators. But while a mode is active, torch treats
// every tensor as a subclass. Many operators then allocate where they otherwise write in place.
// Callbacks of `at::RecordFunction`, on which torch's profiler is built, change nothing.
//
// The callbacks belong to a thread. Autograd also installs them on its own threads during a
// backward pass that an observed thread has begun.
//
// Each adapter includes this file once: the file defines functions of the C interface.

#pragma once

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_set>

namespace pgmo::operators {

// Results of `Begin`.
enum Reporting : int {
  kNever = 0,   // this operator is never reported, so do not ask again
  kHidden = 1,  // this call is not reported
  kReported = 2,
  kWithGrad = 3,  // this call is not reported; ask again only while gradients are enabled
};

// `Begin` and `End` run on the thread of the operator, outside of all locks of the allocator. They
// must not throw. `Begin` may call Python. `End` must not call Python, because a Python error may
// be pending when an operator has failed. `nodes`: number of autograd's nodes that this thread had
// made when its latest reported operator ended; -1 if none has ended.
using Begin = int (*)(const char* name, const char* overload, std::int64_t nodes);
using End = void (*)();

// Null while no thread is observed. The functions live as long as the process.
inline std::atomic<Begin> begin_operator{nullptr};
inline std::atomic<End> end_operator{nullptr};

// Number of the current observation. Threads that began an earlier observation are ignored.
inline std::atomic<int> observation{0};

// Marks an operator that was reported, so that its end is reported, too.
struct ReportedOperator final : at::ObserverContext {};

struct ObservedThread {
  at::CallbackHandle handle = 0;  // 0: this thread did not begin an observation
  int observation = 0;            // number of the observation that this thread began
  bool is_inside = false;         // in a reported operator, or in `begin`
  bool is_suspended = false;
  std::int64_t nodes = -1;  // see `Begin`
  // Operators for which `Begin` returned kNever or kWithGrad, by the address of their names.
  std::unordered_set<const char*> never;
  std::unordered_set<const char*> with_grad;
};

inline ObservedThread& this_thread() {
  thread_local ObservedThread thread;
  return thread;
}

inline std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& call) {
  const Begin begin = begin_operator.load(std::memory_order_acquire);
  if (begin == nullptr) return nullptr;
  ObservedThread& thread = this_thread();
  const bool is_stale = thread.handle != 0 && thread.observation != observation.load();
  if (thread.is_inside || thread.is_suspended || is_stale) return nullptr;
  if (thread.never.count(call.name()) != 0) return nullptr;
  if (!c10::GradMode::is_enabled() && thread.with_grad.count(call.name()) != 0) return nullptr;
  const auto name = call.operator_name();
  if (!name.has_value()) return nullptr;  // not an operator, but a node of autograd
  thread.is_inside = true;
  const int answer = begin(name->name.c_str(), name->overload_name.c_str(), thread.nodes);
  thread.is_inside = answer == kReported;
  if (answer == kNever) thread.never.insert(call.name());
  if (answer == kWithGrad) thread.with_grad.insert(call.name());
  return answer == kReported ? std::make_unique<ReportedOperator>() : nullptr;
}

inline void on_end(const at::RecordFunction&, at::ObserverContext* context) {
  if (context == nullptr) return;
  ObservedThread& thread = this_thread();
  thread.is_inside = false;
  thread.nodes = static_cast<std::int64_t>(at::sequence_number::peek());
  end_operator.load(std::memory_order_acquire)();
}

// Remove the calling thread's callback, if it has one. If the observation began in a hook, autograd
// has removed the callback already. Removing it again would make torch print a warning.
inline void forget_thread() {
  ObservedThread& thread = this_thread();
  if (thread.handle != 0 && at::hasThreadLocalCallbacks()) at::removeCallback(thread.handle);
  thread.handle = 0;
}

}  // namespace pgmo::operators

extern "C" {

// Report the operators of the calling thread from now on. The operators of the thread observed
// before are no longer reported.
void pgmo_observe_operators(pgmo::operators::Begin begin, pgmo::operators::End end) {
  namespace operators = pgmo::operators;
  operators::forget_thread();
  operators::ObservedThread& thread = operators::this_thread();
  thread.never.clear();
  thread.with_grad.clear();
  thread.is_suspended = false;
  thread.nodes = -1;
  thread.observation = operators::observation.fetch_add(1) + 1;
  thread.handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(operators::on_begin, operators::on_end)
                                     .scopes({at::RecordScope::FUNCTION}));
  operators::end_operator.store(end, std::memory_order_release);
  operators::begin_operator.store(begin, std::memory_order_release);
}

// Stop reporting operators of all threads. The callback of another thread remains, without effect.
void pgmo_ignore_operators() {
  pgmo::operators::begin_operator.store(nullptr, std::memory_order_release);
  pgmo::operators::forget_thread();
}

// Set whether to suspend the reports of the calling thread's operators.
void pgmo_suspend_operators(int suspended) {
  pgmo::operators::this_thread().is_suspended = suspended != 0;
}

}  // extern "C"

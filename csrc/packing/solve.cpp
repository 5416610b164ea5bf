#include "packing/solve.hpp"

#include <algorithm>
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>

#include "packing/exact/branch_and_bound.hpp"

namespace pgmo::packing {
namespace {

using Method = Improvement (*)(const Ring&, const Offsets&, Monitor&, const SearchOptions&);

constexpr std::chrono::milliseconds kPoll{10};
constexpr double kForever = 1e9;  // maximum time limit in seconds, to avoid overflow

Method method_of(std::string_view name) {
  if (name == "search") return improve;
  if (name == "branch-and-bound") return branch_and_bound;
  throw std::invalid_argument("unknown method: " + std::string(name));
}

Clock::time_point after(Clock::time_point from, double seconds) {
  const double bounded = std::clamp(seconds, 0.0, kForever);
  return from + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(bounded));
}

}  // namespace

Outcome solve(std::string_view method, const Problem& problem, const Offsets& incumbent,
              Bytes bound, double time_limit, const SearchOptions& options,
              const Listener& listener) {
  const auto deadline = after(Clock::now(), time_limit);
  const Method run = method_of(method);
  const Ring ring = make_ring(problem);
  Monitor monitor(incumbent, arena_of(ring, incumbent), std::max(bound, ring.max_load), deadline);

  Outcome outcome;
  Improvement found{incumbent, monitor.arena()};
  if (!monitor.stopped()) {
    auto task =
        std::async(std::launch::async, [&] { return run(ring, incumbent, monitor, options); });
    try {
      while (task.wait_for(kPoll) != std::future_status::ready) {
        if (outcome.interrupted) continue;
        outcome.interrupted = !listener(monitor.take_progress());
        if (outcome.interrupted) monitor.stop();
      }
    } catch (...) {
      monitor.stop();
      task.wait();  // the task refers to this stack frame
      throw;
    }
    found = task.get();
    if (!outcome.interrupted) outcome.interrupted = !listener(monitor.take_progress());
  }
  // For equal arenas, prefer the method's own result: the monitor's depends on the threads' speed.
  outcome.offsets = found.arena <= monitor.arena() ? std::move(found.offsets) : monitor.offsets();
  outcome.bound = std::min(monitor.bound(), arena_of(ring, outcome.offsets));
  return outcome;
}

}  // namespace pgmo::packing

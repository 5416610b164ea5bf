// A step in which operations of the forward pass may run again anywhere and any number of times.
//
//   0   1   2  (0)  3   4  (0)(1)  5   ...      (0): operation 0, run again before operation 3
//
// In a choice of dropped operations (step.hpp), each dropped operation runs again at most once, and
// its values stay until their last use. Here any operation may run again right before any later
// operation, and reads return the latest write. So every set of reruns can be executed. A value
// lives from a write to its last reader before the next write; one walk from the end of the step to
// its beginning finds all lifetimes. Reruns whose values are not read are not run.
//
// An operation may be offloaded instead: its value is sent to the host right after the operation,
// and a rerun fetches the value without reading anything. Transfers run one after the other, in
// parallel with the operations, which wait for a late transfer:
//
//   operations   0  1  2  3  4  ...  9   10  11
//   transfers       (0------)        (0------)      the value of 0 exists up to 3, and from 9 on

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "recompute/annealing.hpp"
#include "recompute/step.hpp"

namespace pgmo::recompute {

// For each operation of the step, the forward operations that run again right before it, ascending.
using Reruns = std::vector<std::vector<Index>>;

// Timing of transfers to and from the host, for each forward operation.
struct Transfers {
  std::vector<double> seconds;  // one way, for the operation's value; negative: never offloaded
  std::vector<Index> until;     // the operation before which the value is freed
};

using Offloaded = std::vector<std::uint8_t>;  // for each forward operation

class Replay {
 public:
  // Throws as `check` (step.hpp) does.
  explicit Replay(const Columns& columns);

  // Allow operations to be offloaded. Throws std::invalid_argument if an entry is invalid.
  void set_transfers(const Transfers& transfers);
  const Transfers& transfers() const { return transfers_; }

  // Assign each operation to a part, a graph of the step: reruns and fetches happen only before
  // operations of the same part. Throws std::invalid_argument if the number of entries is wrong.
  void set_homes(const std::vector<Index>& homes);
  bool is_at_home(Index moment, Index operation) const {
    return homes_.empty() || homes_[at(moment)] == homes_[at(operation)];
  }

  Index forward() const { return forward_; }
  Index operations() const { return operations_; }
  const std::vector<double>& cost() const { return cost_; }
  double forward_cost() const {
    return std::accumulate(cost_.begin(), cost_.begin() + forward_, 0.0);
  }
  // Return the forward values that each operation reads. Pinned values have producer -1.
  const Lists& reads() const { return reads_; }
  Index producer(Index value) const { return producer_[at(value)]; }

  // Return peak, cost and excess above `level`. Appends to `unread`, if given, the reruns that are
  // not run. `offloaded` is empty if nothing is offloaded. Not thread-safe: it uses scratch
  // members.
  Evaluation evaluate(const Reruns& reruns, const Offloaded& offloaded, Bytes level = 0,
                      std::vector<std::pair<Index, Index>>* unread = nullptr);

 private:
  friend class Beam;  // evaluates many sets of needed values at once

  Index forward_, operations_;
  std::vector<double> cost_;
  Lists reads_, writes_;         // of each operation: values of the forward pass, without results
  std::vector<Bytes> size_;      // of each of these values
  std::vector<Index> producer_;  // of each of these values; -1 if pinned
  std::vector<Bytes> written_;   // by each operation, workspace included
  std::vector<Bytes> at_;        // bytes of all other values while an operation runs
  std::vector<Bytes> before_;    // bytes of all other values in reruns before an operation
  std::vector<std::uint8_t> needed_;

  // Return the seconds that operations wait for transfers.
  double wait(const Offloaded& offloaded);

  std::vector<Index> homes_;  // empty: all operations are in one part
  Transfers transfers_;
  Lists ending_;                 // of each operation: operations whose values are freed after it
  std::vector<Index> value_of_;  // of each forward operation that may be offloaded
  // Scratch: values that were fetched, reruns as (moment, operation), the last first, and clocks.
  std::vector<std::uint8_t> fetched_;
  std::vector<std::pair<Index, Index>> ran_;
  std::vector<double> sent_, arrives_;
};

struct RerunSearchResult {
  Reruns reruns;
  Offloaded offloaded;
  Evaluation outcome;
  bool improved;  // whether the reruns are better than the start
};

// Search reruns by simulated annealing. Return the best result, never worse than `start`. Results
// that cost more than `most` are rejected. A search for the least peak ends at `enough` bytes.
//
//   add      rerun an operation before a reader of its values, and possibly producers of its inputs
//   remove   remove one rerun, or several of one moment
//   shift    move one rerun, or all of one moment, earlier or later
//   offload  start or stop offloading an operation
//
// `movable` marks forward operations that may run again. Without transfers, nothing is offloaded.
RerunSearchResult search_reruns(Replay& replay, const std::vector<std::uint8_t>& movable,
                                const Reruns& start, const Offloaded& offloaded,
                                const SearchLimits& limits, Bytes enough, double most);

}  // namespace pgmo::recompute

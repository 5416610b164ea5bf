// A step in which operations of the forward pass run again wherever and as often as it pays.
//
//   0   1   2  (0)  3   4  (0)(1)  5   ...      (0): operation 0, run again before operation 3
//
// A choice of forgotten operations (step.hpp) has each of them run again once, and its values stay
// to their last use. Here any operation may run again right before any later one, and a value that
// is read is the one that was written last: so every set of reruns is a step that can be run. A
// value lives from where it is written to its last reader before it is written again, which one
// walk from the end of the step to its beginning finds. What nobody reads is not run.
//
// An operation may be offloaded instead: what it has written is sent to the host right after it,
// and when it "runs again" it reads nothing, as the value is fetched. Transfers run one after the
// other beside the operations, which wait where one is not done in time:
//
//   operations   0  1  2  3  4  ...  9   10  11
//   transfers       (0------)        (0------)      the value of 0 is there to 3, and from 9 on

#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "recompute/search.hpp"
#include "recompute/step.hpp"

namespace pgmo::recompute {

// For each operation of the step, the forward operations that run again right before it, ascending.
using Reruns = std::vector<std::vector<Index>>;

// How values get to the host and back, for each forward operation.
struct Transfers {
  std::vector<double> seconds;  // of what it writes, one way; below 0 where it is never offloaded
  std::vector<Index> until;     // the operation before which what it has written is there no more
};

using Offloaded = std::vector<std::uint8_t>;  // for each forward operation

class Replay {
 public:
  // Throws std::invalid_argument when an index is out of range.
  explicit Replay(const Columns& columns);

  // Lets operations be offloaded. Throws std::invalid_argument when an entry is out of range.
  void set_transfers(const Transfers& transfers);
  const Transfers& transfers() const { return transfers_; }

  // Of each operation of the step the part that it belongs to: what runs again or is fetched does
  // so before one of the same part. Throws std::invalid_argument when their number is another one.
  void set_homes(const std::vector<Index>& homes);
  bool is_at_home(Index moment, Index operation) const {
    return homes_.empty() ||
           homes_[static_cast<std::size_t>(moment)] == homes_[static_cast<std::size_t>(operation)];
  }

  Index forward() const { return forward_; }
  Index operations() const { return operations_; }
  const std::vector<double>& cost() const { return cost_; }
  // What an operation reads and writes that may be there once more; of pinned values the producer
  // is -1.
  const Lists& reads() const { return reads_; }
  Index producer(Index value) const { return producer_[static_cast<std::size_t>(value)]; }

  // The excess is counted from `level`. `unread` gets the reruns that are not run, if it is given.
  // `offloaded` is empty where nothing is. Not safe to call from two threads on one object: it uses
  // its scratch.
  Evaluation evaluate(const Reruns& reruns, const Offloaded& offloaded, Bytes level = 0,
                      std::vector<std::pair<Index, Index>>* unread = nullptr);

 private:
  friend class Beam;  // goes the way of `evaluate` with many sets of needed values at once

  Index forward_, operations_;
  std::vector<double> cost_;
  Lists reads_, writes_;         // of each operation: values of the forward pass, no results
  std::vector<Bytes> size_;      // of each of these
  std::vector<Index> producer_;  // of each of these; -1 where it is pinned
  std::vector<Bytes> written_;   // by each operation, workspace included
  std::vector<Bytes> at_;        // the other values, while an operation runs in its place
  std::vector<Bytes> before_;    // the same while something runs again right before it
  std::vector<std::uint8_t> needed_;

  // Seconds that operations wait for transfers.
  double wait(const Offloaded& offloaded);

  std::vector<Index> homes_;  // empty where all is one part
  Transfers transfers_;
  Lists ending_;                 // of each operation: those whose values are gone after it
  std::vector<Index> value_of_;  // of each forward operation that may be offloaded
  // Scratch: what was fetched at all, what ran (moment, operation; the last first), and clocks.
  std::vector<std::uint8_t> fetched_;
  std::vector<std::pair<Index, Index>> ran_;
  std::vector<double> sent_, arrives_;
};

struct Wider {
  Reruns reruns;
  Offloaded offloaded;
  Evaluation outcome;
  std::int64_t evaluations;
  std::vector<Found> trace;  // each improvement
};

// As `search`, over reruns: the best found, never worse than `start`. What costs more than `most`
// is not taken, and the search for a least peak ends with one of `enough`.
//
//   add      an operation runs again before one that reads its values, and perhaps what it reads
//   remove   one no longer does, or several of one moment
//   shift    one runs again earlier or later, or all of one moment
//   offload  one is offloaded from now on, or no longer
//
// `movable` has the forward operations that may run again. Nothing is offloaded where the replay
// knows of no transfers.
Wider search_reruns(Replay& replay, const std::vector<std::uint8_t>& movable, const Reruns& start,
                    const Offloaded& offloaded, Bytes budget, Bytes enough, double most,
                    std::int64_t evaluations, std::uint64_t seed,
                    const std::function<bool()>& stop);

}  // namespace pgmo::recompute

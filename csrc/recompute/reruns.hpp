// A step in which operations of the forward pass run again wherever and as often as it pays.
//
//   0   1   2  (0)  3   4  (0)(1)  5   ...      (0): operation 0, run again before operation 3
//
// A choice of forgotten operations (step.hpp) has each of them run again once, and its values stay
// to their last use. Here any operation may run again right before any later one, and a value that
// is read is the one that was written last: so every set of reruns is a step that can be run. A
// value lives from where it is written to its last reader before it is written again, which one
// walk from the end of the step to its beginning finds. What nobody reads is not run.

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

class Replay {
 public:
  // Throws std::invalid_argument when an index is out of range.
  explicit Replay(const Columns& columns);

  Index forward() const { return forward_; }
  Index operations() const { return operations_; }
  const std::vector<double>& cost() const { return cost_; }
  // What an operation reads and writes that may be there once more; of pinned values the producer
  // is -1.
  const Lists& reads() const { return reads_; }
  Index producer(Index value) const { return producer_[static_cast<std::size_t>(value)]; }

  // The excess is counted from `level`. `unread` gets the reruns that are not run, if it is given.
  // Not safe to call from two threads on one object: it uses its scratch.
  Outcome evaluate(const Reruns& reruns, Bytes level = 0,
                   std::vector<std::pair<Index, Index>>* unread = nullptr);

 private:
  Index forward_, operations_;
  std::vector<double> cost_;
  Lists reads_, writes_;         // of each operation: values of the forward pass, no results
  std::vector<Bytes> size_;      // of each of these
  std::vector<Index> producer_;  // of each of these; -1 where it is pinned
  std::vector<Bytes> written_;   // by each operation, workspace included
  std::vector<Bytes> at_;        // the other values, while an operation runs in its place
  std::vector<Bytes> before_;    // the same while something runs again right before it
  std::vector<std::uint8_t> needed_;
};

struct Wider {
  Reruns reruns;
  Outcome outcome;
  std::int64_t evaluations;
  std::vector<Found> trace;  // each improvement
};

// As `search`, over reruns: the best found, never worse than `start`. What costs more than `most`
// is not taken, and the search for a least peak ends with one of `enough`.
//
//   add      an operation runs again before one that reads its values, and perhaps what it reads
//   remove   one no longer does, or several of one moment
//   shift    one runs again earlier or later, or all of one moment
//
// `movable` has the forward operations that may run again.
Wider search_reruns(Replay& replay, const std::vector<std::uint8_t>& movable, const Reruns& start,
                    Bytes budget, Bytes enough, double most, std::int64_t evaluations,
                    std::uint64_t seed, const std::function<bool()>& stop);

}  // namespace pgmo::recompute

// One step as flat columns, and what a choice of forgotten operations comes to on it.
//
//   bytes ^          kept values
//         |      ____/‾‾\__                  The values of the backward pass live as they do
//         whatever |   __/    |     \__/\_            is chosen, and so do those of the forward
//         pass up to |  /       |           \           their last use in it: both are summed once.
//         An | /        |            \          evaluation adds what is kept and what is made
//         again.
//         +----------+-----------------> steps
//            forward     backward
//
// A forgotten operation runs again right before the first backward operation that needs it, all
// those of one moment in the order of the forward pass. So the moment of each is the earliest of
// its readers', and one walk from the last operation to the first finds them all; nothing is
// searched, and an evaluation takes a few microseconds for a thousand operations.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "types.hpp"

namespace pgmo::recompute {

using Index = std::int32_t;

// Lists of different lengths, one after the other.
struct Lists {
  std::vector<Index> begin;  // one more than there are lists
  std::vector<Index> items;
};

// What Python hands over; `forward` of the operations belong to the forward pass.
struct Columns {
  Index forward;
  Lists reads, writes;  // values, one list for each operation
  std::vector<double> cost;
  std::vector<Bytes> workspace;      // of each operation
  std::vector<Bytes> size;           // of each value
  std::vector<Index> producer;       // of each value; -1: given, not counted
  std::vector<std::uint8_t> result;  // of each value: lives to the end
  std::vector<std::uint8_t> pinned;  // of each value: kept whenever it is needed
};

// Throws std::invalid_argument when an index is out of range.
void check(const Columns& columns);

struct Evaluation {
  Bytes peak;
  double cost;   // of what runs twice
  Bytes excess;  // above a level, summed over the steps
};

using Choice = std::vector<std::uint8_t>;  // for each forward operation: whether it is forgotten

class Step {
 public:
  // Throws std::invalid_argument when an index is out of range.
  explicit Step(const Columns& columns);

  Index forward() const { return forward_; }
  double cost(Index operation) const { return cost_[static_cast<std::size_t>(operation)]; }

  // The excess is counted from `level`. Not safe to call from two threads on one object: it uses
  // its scratch.
  Evaluation evaluate(const Choice& choice, Bytes level = 0);

 private:
  void find_moments(const Choice& choice);
  void run_forward();
  void run_backward();
  void look(Bytes live) {
    outcome_.peak = std::max(outcome_.peak, live);
    outcome_.excess += std::max<Bytes>(0, live - level_);
  }

  // A point of the backward pass: an operation that runs again before operation `moment`, or that
  // operation itself, which comes after them all.
  std::int64_t point(Index moment, Index operation) const {
    return static_cast<std::int64_t>(moment) * (forward_ + 1) + operation;
  }

  Index forward_, backward_, values_;
  std::vector<double> cost_;
  // Forward values only, numbered anew; given values and results are in no list of reads.
  Lists reads_, writes_, backward_reads_;
  std::vector<Bytes> size_;
  std::vector<Index> last_forward_;       // the last forward operation that uses the value
  std::vector<Index> first_backward_;     // the first backward operation that reads it
  std::vector<std::int64_t> last_point_;  // the point of the last one; -1 for none
  std::vector<std::uint8_t> stays_;       // pinned
  std::vector<Bytes> forward_base_;       // alive while a forward operation runs
  std::vector<Bytes> backward_base_;      // alive while a backward operation runs
  std::vector<Bytes> between_base_;       // alive right before it
  std::vector<Bytes> again_bytes_;        // what a forward operation takes when it runs again

  // Scratch.
  std::vector<Index> needed_;         // when each value is first needed
  std::vector<std::int64_t> last_;    // the point after which each value is gone
  std::vector<Index> bucket_, next_;  // operations that run again at each moment, ascending
  std::vector<Bytes> change_;
  std::vector<std::uint8_t> forgotten_;  // of each value
  Bytes kept_ = 0;
  Bytes level_ = 0;
  Evaluation outcome_{};
};

}  // namespace pgmo::recompute

// One step as flat columns, and the evaluation of a choice of dropped operations.
//
//   bytes ^          kept values
//         |      ____/‾‾\__                  The lifetimes of backward values are the same for
//         |   __/    |     \__/\_            every choice, and so are those of forward values
//         |  /       |           \           up to their last forward use. Their sums are
//         | /        |            \          computed once. An evaluation adds the forward
//         +----------+-----------------> steps values that the backward pass uses.
//            forward     backward
//
// A dropped operation runs again right before the first backward operation that needs it, at its
// *moment*. Operations of one moment run in the order of the forward pass. So an operation's moment
// is the earliest moment of its readers, and one walk from the last operation to the first finds
// all moments. An evaluation needs no search and takes a few microseconds per thousand operations.

#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "types.hpp"

namespace pgmo::recompute {

using Index = std::int32_t;

constexpr Index kNone = -1;

inline std::size_t at(Index index) {
  return static_cast<std::size_t>(index);
}

// Lists of different lengths in one array.
struct Lists {
  std::vector<Index> begin;  // number of lists + 1 entries
  std::vector<Index> items;

  std::span<const Index> operator[](std::size_t list) const {
    return std::span(items).subspan(at(begin[list]), at(begin[list + 1] - begin[list]));
  }
  std::span<const Index> operator[](Index list) const { return (*this)[at(list)]; }
};

// Columns passed by Python; the first `forward` operations belong to the forward pass.
struct Columns {
  Index forward;
  Lists reads, writes;  // values, one list per operation
  std::vector<double> cost;
  std::vector<Bytes> workspace;      // of each operation
  std::vector<Bytes> size;           // of each value
  std::vector<Index> producer;       // of each value; -1: an input, not counted
  std::vector<std::uint8_t> result;  // of each value: lives to the end
  std::vector<std::uint8_t> pinned;  // of each value: never recomputed
};

// Throws std::invalid_argument if an index is out of range or columns differ in length.
void check(const Columns& columns);

struct Evaluation {
  Bytes peak;
  double cost;   // of operations that run twice
  Bytes excess;  // live bytes above a level, summed over the operations
};

using Choice = std::vector<std::uint8_t>;  // for each forward operation, whether it is dropped

// Until `sum_up`, byte counts per operation are stored as differences between neighbours.

// Add `bytes` to the operations [first, last], if any; `change` has one more entry than operations.
inline void live(std::vector<Bytes>& change, Index first, Index last, Bytes bytes) {
  if (first > last) return;
  change[at(first)] += bytes;
  change[at(last) + 1] -= bytes;
}

inline void sum_up(std::vector<Bytes>& change) {
  for (std::size_t i = 1; i < change.size(); ++i) change[i] += change[i - 1];
  change.pop_back();
}

class Step {
 public:
  // Throws as `check` does.
  explicit Step(const Columns& columns);

  Index forward() const { return forward_; }
  double cost(Index operation) const { return cost_[at(operation)]; }
  double forward_cost() const { return std::accumulate(cost_.begin(), cost_.end(), 0.0); }

  // Return peak, cost and excess above `level`. Not thread-safe: it uses scratch members.
  Evaluation evaluate(const Choice& choice, Bytes level = 0);

 private:
  void find_moments(const Choice& choice);
  void run_forward();
  void run_backward();
  void look(Bytes live) {
    outcome_.peak = std::max(outcome_.peak, live);
    outcome_.excess += std::max<Bytes>(0, live - level_);
  }

  // Return the number of a point of the backward pass: the rerun of `operation` before `moment`. If
  // `operation` is `forward_`, the point is operation `moment` itself, which comes after its
  // reruns.
  std::int64_t point(Index moment, Index operation) const {
    return static_cast<std::int64_t>(moment) * (forward_ + 1) + operation;
  }

  Index forward_, backward_, values_;
  std::vector<double> cost_;
  // Forward values only, renumbered; inputs and results are in no list of reads.
  Lists reads_, writes_, backward_reads_;
  std::vector<Bytes> size_;
  std::vector<Index> last_forward_;       // the last forward operation that uses the value
  std::vector<Index> first_backward_;     // the first backward operation that reads the value
  std::vector<std::int64_t> last_point_;  // point of the last backward use; -1: none
  std::vector<std::uint8_t> stays_;       // whether the value is pinned
  std::vector<Bytes> forward_base_;       // bytes alive while a forward operation runs
  std::vector<Bytes> backward_base_;      // bytes alive while a backward operation runs
  std::vector<Bytes> between_base_;       // bytes alive right before a backward operation
  std::vector<Bytes> again_bytes_;        // bytes that a forward operation takes when it runs again

  // Scratch.
  std::vector<Index> needed_;         // moment at which each value is first needed
  std::vector<std::int64_t> last_;    // point after which each value is freed
  std::vector<Index> bucket_, next_;  // operations that run again at each moment, ascending
  std::vector<Bytes> change_;
  std::vector<std::uint8_t> dropped_;  // of each value
  Bytes kept_ = 0;
  Bytes level_ = 0;
  Evaluation outcome_{};
};

}  // namespace pgmo::recompute

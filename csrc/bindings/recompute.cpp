// Bindings of the evaluation of choices, the searches over them, and the minimum cut.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/module.hpp"
#include "recompute/beam.hpp"
#include "recompute/min_cut.hpp"
#include "recompute/reruns.hpp"
#include "recompute/search.hpp"
#include "recompute/step.hpp"

namespace py = pybind11;

namespace pgmo {
namespace {

using Clock = std::chrono::steady_clock;

template <typename T>
using Column = py::array_t<T, py::array::c_style>;
using Indices = Column<recompute::Index>;

template <typename T>
std::vector<T> copy(const Column<T>& column) {
  return {column.data(), column.data() + column.size()};
}

template <typename T>
T from_columns(recompute::Index forward, const Indices& reads_begin, const Indices& reads,
               const Indices& writes_begin, const Indices& writes, const Column<double>& cost,
               const Column<Bytes>& workspace, const Column<Bytes>& size, const Indices& producer,
               const Column<std::uint8_t>& result, const Column<std::uint8_t>& pinned) {
  return T(recompute::Columns{forward,
                              {copy(reads_begin), copy(reads)},
                              {copy(writes_begin), copy(writes)},
                              copy(cost),
                              copy(workspace),
                              copy(size),
                              copy(producer),
                              copy(result),
                              copy(pinned)});
}

template <typename T>
void define_init(py::class_<T>& type) {
  type.def(py::init(&from_columns<T>), py::arg("forward"), py::arg("reads_begin"), py::arg("reads"),
           py::arg("writes_begin"), py::arg("writes"), py::arg("cost"), py::arg("workspace"),
           py::arg("size"), py::arg("producer"), py::arg("result"), py::arg("pinned"));
}

using Places = std::vector<std::pair<recompute::Index, recompute::Index>>;

// Convert (moment, operation) pairs to one row per moment.
recompute::Reruns read_reruns(const recompute::Replay& replay, const Places& places) {
  recompute::Reruns rows(static_cast<std::size_t>(replay.operations()));
  for (const auto& [moment, operation] : places) {
    if (operation < 0 || operation >= replay.forward() || moment <= operation ||
        moment >= replay.operations()) {
      throw py::value_error("a rerun is out of range");
    }
    rows[static_cast<std::size_t>(moment)].push_back(operation);
  }
  for (std::vector<recompute::Index>& row : rows) {
    std::sort(row.begin(), row.end());
    row.erase(std::unique(row.begin(), row.end()), row.end());
  }
  return rows;
}

Places written(const recompute::Reruns& reruns) {
  Places places;
  for (std::size_t moment = 0; moment < reruns.size(); ++moment) {
    for (const recompute::Index operation : reruns[moment]) {
      places.emplace_back(static_cast<recompute::Index>(moment), operation);
    }
  }
  return places;
}

recompute::Offloaded read_offloaded(const recompute::Replay& replay, const Indices& operations) {
  if (operations.size() == 0) return {};
  recompute::Offloaded found(static_cast<std::size_t>(replay.forward()));
  const std::vector<double>& seconds = replay.transfers().seconds;
  for (const recompute::Index one : copy(operations)) {
    const bool known = one >= 0 && static_cast<std::size_t>(one) < seconds.size();
    if (!known || seconds[static_cast<std::size_t>(one)] < 0) {
      throw py::value_error("an operation cannot be offloaded");
    }
    found[static_cast<std::size_t>(one)] = 1;
  }
  return found;
}

std::pair<Bytes, double> evaluate_reruns(recompute::Replay& replay, const Places& places,
                                         const Indices& offloaded) {
  const recompute::Evaluation outcome =
      replay.evaluate(read_reruns(replay, places), read_offloaded(replay, offloaded));
  return {outcome.peak, outcome.cost};
}

recompute::Choice read_choice(const recompute::Step& step, const Column<std::uint8_t>& choice) {
  if (choice.size() != step.forward()) {
    throw py::value_error("a choice must have one entry for each forward operation");
  }
  return copy(choice);
}

std::pair<Bytes, double> evaluate(recompute::Step& step, const Column<std::uint8_t>& choice) {
  const recompute::Evaluation outcome = step.evaluate(read_choice(step, choice));
  return {outcome.peak, outcome.cost};
}

bool interrupted() {
  const py::gil_scoped_acquire acquire;
  return PyErr_CheckSignals() != 0;
}

// Call `search(stop)` without the GIL. `stop()` returns true after `time_limit` seconds, or if a
// signal handler raises. Throws the error of the signal handler.
template <typename Search>
auto run_search(double time_limit, Search&& search) {
  const auto begin = Clock::now();
  bool raised = false;
  const auto stop = [&] {
    raised = interrupted();
    return raised || std::chrono::duration<double>(Clock::now() - begin).count() >= time_limit;
  };
  auto result = [&] {
    const py::gil_scoped_release release;
    return search(stop);
  }();
  if (raised) throw py::error_already_set();
  return result;
}

std::optional<std::tuple<Column<std::uint8_t>, Bytes, double>> search(
    recompute::Step& step, const Indices& candidates, const Column<std::uint8_t>& start,
    Bytes budget, std::int64_t evaluations, double time_limit, std::uint64_t seed,
    std::uint32_t period) {
  const std::vector<recompute::Index> all = copy(candidates);
  for (const recompute::Index one : all) {
    if (one < 0 || one >= step.forward()) throw py::value_error("a candidate is out of range");
  }
  const recompute::Choice from = read_choice(step, start);
  const recompute::SearchResult result = run_search(time_limit, [&](const auto& stop) {
    return recompute::search(step, all, from, {budget, evaluations, seed, stop}, period);
  });
  if (!result.improved) return std::nullopt;
  const Column<std::uint8_t> choice(static_cast<py::ssize_t>(result.choice.size()),
                                    result.choice.data());
  return {{choice, result.outcome.peak, result.outcome.cost}};
}

std::vector<std::uint8_t> read_movable(const recompute::Replay& replay,
                                       const Column<std::uint8_t>& movable) {
  if (movable.size() != replay.forward()) {
    throw py::value_error("`movable` must have one entry for each forward operation");
  }
  return copy(movable);
}

std::optional<std::tuple<Places, std::vector<recompute::Index>, Bytes, double>> search_reruns(
    recompute::Replay& replay, const Column<std::uint8_t>& movable, const Places& start,
    const Indices& offloaded, Bytes budget, Bytes enough, double most, std::int64_t evaluations,
    double time_limit, std::uint64_t seed) {
  const std::vector<std::uint8_t> may = read_movable(replay, movable);
  const recompute::Reruns from = read_reruns(replay, start);
  const recompute::Offloaded away = read_offloaded(replay, offloaded);
  const recompute::RerunSearchResult result = run_search(time_limit, [&](const auto& stop) {
    return recompute::search_reruns(replay, may, from, away, {budget, evaluations, seed, stop},
                                    enough, most);
  });
  if (!result.improved) return std::nullopt;
  const Places places = written(result.reruns);
  std::vector<std::uint8_t> comes(result.offloaded.size());
  for (const auto& [moment, operation] : places) {
    if (!comes.empty()) comes[static_cast<std::size_t>(operation)] = 1;
  }
  std::vector<recompute::Index> fetched;  // offloading without a fetch has no effect
  for (std::size_t one = 0; one < comes.size(); ++one) {
    if (comes[one] != 0 && result.offloaded[one] != 0) {
      fetched.push_back(static_cast<recompute::Index>(one));
    }
  }
  return {{places, fetched, result.outcome.peak, result.outcome.cost}};
}

std::optional<Places> beam(const recompute::Replay& replay, const Column<std::uint8_t>& movable,
                           Bytes budget, std::size_t width, double time_limit) {
  const std::vector<std::uint8_t> may = read_movable(replay, movable);
  const std::optional<recompute::Reruns> found = run_search(time_limit, [&](const auto& stop) {
    return recompute::beam_reruns(replay, may, budget, width, stop);
  });
  if (!found) return std::nullopt;
  return written(*found);
}

std::pair<std::int64_t, Column<std::uint8_t>> min_cut(std::int32_t nodes, const Indices& tail,
                                                      const Indices& head,
                                                      const Column<std::int64_t>& capacity,
                                                      std::int32_t source, std::int32_t sink) {
  if (tail.size() != head.size() || tail.size() != capacity.size()) {
    throw py::value_error("the columns of edges differ in length");
  }
  std::vector<recompute::Edge> edges;
  for (py::ssize_t i = 0; i < tail.size(); ++i) {
    edges.push_back({tail.data()[i], head.data()[i], capacity.data()[i]});
  }
  recompute::Cut cut;
  {
    const py::gil_scoped_release release;
    cut = recompute::min_cut(nodes, edges, source, sink);
  }
  return {cut.capacity, Column<std::uint8_t>(static_cast<py::ssize_t>(cut.source_side.size()),
                                             cut.source_side.data())};
}

}  // namespace

void bind_recompute(py::module_& module) {
  py::class_<recompute::Step> step(module, "Step",
                                   "One training step as flat columns; evaluates choices of\n"
                                   "dropped operations.");
  define_init(step);
  step.def("evaluate", &evaluate, py::arg("choice"),
           "Return the peak in bytes and the cost of the operations that run twice, for a\n"
           "choice (forward,) of 0 and 1. The cost has the unit of the column `cost`.")
      .def("search", &search, py::arg("candidates"), py::arg("start"), py::arg("budget"),
           py::arg("evaluations"), py::arg("time_limit"), py::arg("seed"), py::arg("period"),
           "Improve the choice `start` (forward,). With a budget of at least 0 bytes, search\n"
           "the cheapest choice whose peak is within `budget`; with -1, the choice with the\n"
           "lowest peak. `period` is the number of candidates after which equal candidates\n"
           "recur; 0 if they do not recur.\n\n"
           "Return choice, peak and cost, or None if nothing better was found. Deterministic\n"
           "for a seed unless `time_limit` seconds pass. Releases the GIL; must not be called\n"
           "from two threads on one object.");
  py::class_<recompute::Replay> replay(
      module, "Replay",
      "One training step, in which forward operations may run again before any later\n"
      "operation.");
  define_init(replay);
  replay
      .def(
          "set_transfers",
          [](recompute::Replay& replay, const Column<double>& seconds, const Indices& until) {
            replay.set_transfers({copy(seconds), copy(until)});
          },
          py::arg("seconds"), py::arg("until"),
          "Set the transfers (forward,). `seconds`: duration of one transfer of the operation's\n"
          "value; negative if the operation cannot be offloaded. `until`: the operation before\n"
          "which the value is freed.")
      .def(
          "set_homes",
          [](recompute::Replay& replay, const Indices& homes) { replay.set_homes(copy(homes)); },
          py::arg("homes"),
          "Assign each operation to a part of the step (operations,). An operation runs again\n"
          "only before operations of its own part.")
      .def("evaluate", &evaluate_reruns, py::arg("reruns"), py::arg("offloaded"),
           "Return the peak in bytes and the cost of the reruns, for (moment, operation) pairs:\n"
           "the operation runs again right before operation `moment`, or its value is fetched\n"
           "if the operation is in `offloaded`. The cost includes waits for transfers.")
      .def("search", &search_reruns, py::arg("movable"), py::arg("start"), py::arg("offloaded"),
           py::arg("budget"), py::arg("enough"), py::arg("most"), py::arg("evaluations"),
           py::arg("time_limit"), py::arg("seed"),
           "Improve the reruns `start`. With a budget of at least 0 bytes, search the cheapest\n"
           "reruns whose peak is within `budget`; with -1, the lowest peak, until a peak of\n"
           "`enough` bytes. The cost is at most `most`. `movable` (forward,) has 1 for\n"
           "operations that may run again.\n\n"
           "Return reruns, offloaded operations, peak and cost, or None if nothing better was\n"
           "found. Deterministic for a seed unless `time_limit` seconds pass. Releases the GIL;\n"
           "must not be called from two threads on one object.")
      .def("beam", &beam, py::arg("movable"), py::arg("budget"), py::arg("width"),
           py::arg("time_limit"),
           "Return reruns with a peak within `budget` bytes, found by a search from the end\n"
           "of the step to its beginning that keeps `width` sets of needed values. Return\n"
           "None if it finds none, or after `time_limit` seconds. `movable` (forward,) has 1\n"
           "for operations that may run again. Releases the GIL.");
  module.def("min_cut", &min_cut, py::arg("nodes"), py::arg("tail"), py::arg("head"),
             py::arg("capacity"), py::arg("source"), py::arg("sink"),
             "Return the capacity of the minimum cut between `source` and `sink`, and for each\n"
             "node (nodes,) whether it is on the source's side. Edges have shape (m,). Raises\n"
             "ValueError if a node is out of range, a capacity is negative, or `source` equals\n"
             "`sink`.");
  module.attr("UNCUTTABLE") = recompute::kUncuttable;
}

}  // namespace pgmo

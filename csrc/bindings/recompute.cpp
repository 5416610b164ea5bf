// The evaluation of choices, the search over them, and the minimum cut.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <utility>

#include "bindings/module.hpp"
#include "recompute/min_cut.hpp"
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

recompute::Step make_step(recompute::Index forward, const Indices& reads_begin,
                          const Indices& reads, const Indices& writes_begin, const Indices& writes,
                          const Column<double>& cost, const Column<Bytes>& workspace,
                          const Column<Bytes>& size, const Indices& producer,
                          const Column<std::uint8_t>& result, const Column<std::uint8_t>& pinned) {
  return recompute::Step({forward,
                          {copy(reads_begin), copy(reads)},
                          {copy(writes_begin), copy(writes)},
                          copy(cost),
                          copy(workspace),
                          copy(size),
                          copy(producer),
                          copy(result),
                          copy(pinned)});
}

recompute::Choice read_choice(const recompute::Step& step, const Column<std::uint8_t>& choice) {
  if (choice.size() != step.forward()) {
    throw py::value_error("a choice has one entry for each forward operation");
  }
  return copy(choice);
}

std::pair<Bytes, double> evaluate(recompute::Step& step, const Column<std::uint8_t>& choice) {
  const recompute::Outcome outcome = step.evaluate(read_choice(step, choice));
  return {outcome.peak, outcome.cost};
}

bool interrupted() {
  const py::gil_scoped_acquire acquire;
  return PyErr_CheckSignals() != 0;
}

py::tuple search(recompute::Step& step, const Indices& candidates,
                 const Column<std::uint8_t>& start, Bytes budget, std::int64_t evaluations,
                 double time_limit, std::uint64_t seed) {
  const auto begin = Clock::now();
  const std::vector<recompute::Index> all = copy(candidates);
  for (const recompute::Index one : all) {
    if (one < 0 || one >= step.forward()) throw py::value_error("a candidate is out of range");
  }
  const recompute::Choice from = read_choice(step, start);
  recompute::Answer answer;
  bool raised = false;
  {
    const py::gil_scoped_release release;
    answer = recompute::search(step, all, from, budget, evaluations, seed, [&] {
      raised = interrupted();
      return raised || std::chrono::duration<double>(Clock::now() - begin).count() >= time_limit;
    });
  }
  if (raised) throw py::error_already_set();
  std::vector<std::tuple<std::int64_t, Bytes, double>> trace;
  for (const recompute::Found& found : answer.trace) {
    trace.emplace_back(found.evaluations, found.outcome.peak, found.outcome.cost);
  }
  const Column<std::uint8_t> choice(static_cast<py::ssize_t>(answer.choice.size()),
                                    answer.choice.data());
  return py::make_tuple(choice, answer.outcome.peak, answer.outcome.cost, answer.evaluations,
                        trace);
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
  py::class_<recompute::Step>(module, "Step",
                              "One training step as flat columns; evaluates choices.")
      .def(py::init(&make_step), py::arg("forward"), py::arg("reads_begin"), py::arg("reads"),
           py::arg("writes_begin"), py::arg("writes"), py::arg("cost"), py::arg("workspace"),
           py::arg("size"), py::arg("producer"), py::arg("result"), py::arg("pinned"))
      .def("evaluate", &evaluate, py::arg("choice"),
           "Peak in bytes and cost of what runs twice, for a choice (forward,) of 0 and 1.")
      .def(
          "search", &search, py::arg("candidates"), py::arg("start"), py::arg("budget"),
          py::arg("evaluations"), py::arg("time_limit"), py::arg("seed"),
          "Improves the choice `start` (forward,): cheapest with a peak within `budget` bytes,\n"
          "or the least peak for a budget of -1.\n\n"
          "Returns choice, peak, cost, evaluations, and (evaluations, peak, cost) for each\n"
          "improvement. The same for the same seed unless `time_limit` seconds pass. Releases the\n"
          "GIL; not to be called from two threads on one object.");
  module.def("min_cut", &min_cut, py::arg("nodes"), py::arg("tail"), py::arg("head"),
             py::arg("capacity"), py::arg("source"), py::arg("sink"),
             "Least capacity between two nodes of a graph with edges (m,), and the nodes on the\n"
             "side of the source (nodes,).");
  module.attr("UNCUTTABLE") = recompute::kUncuttable;
}

}  // namespace pgmo

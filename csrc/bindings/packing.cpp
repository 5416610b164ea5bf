// Bindings of the packers, which take arrays and return offsets.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "bindings/module.hpp"
#include "packing/overlap.hpp"
#include "packing/packer.hpp"
#include "packing/solve.hpp"

namespace py = pybind11;

namespace pgmo {
namespace {

using Column = py::array_t<std::int64_t, py::array::c_style>;

packing::Problem problem_of(const Column& size, const Column& lower, const Column& upper,
                            Tick period, Bytes alignment) {
  const auto copy = [](const Column& column) {
    return std::vector<std::int64_t>(column.data(), column.data() + column.size());
  };
  return {copy(size), copy(lower), copy(upper), period, alignment};
}

// Take the GIL, call Python code, and run signal handlers. Return false if either raises
// KeyboardInterrupt. Other exceptions propagate.
template <typename Call>
bool call_python(Call&& call) {
  const py::gil_scoped_acquire acquire;
  try {
    call();
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_KeyboardInterrupt)) throw;
    return false;
  }
  return true;
}

std::pair<Column, bool> pack(const std::string& name, const Column& size, const Column& lower,
                             const Column& upper, Tick period, Bytes alignment, double time_limit) {
  constexpr double kAsk = 0.02;  // seconds between two checks for signals
  const auto begin = packing::Clock::now();
  const packing::Packer* packer = packing::find_packer(name);
  if (packer == nullptr) throw std::invalid_argument("unknown packer: " + name);
  const packing::Problem problem = problem_of(size, lower, upper, period, alignment);
  packing::Offsets offsets;
  bool interrupted = false;
  double asked = 0;
  {
    const py::gil_scoped_release release;
    offsets = packing::pack(*packer, packing::make_ring(problem), [&] {
      const double now = std::chrono::duration<double>(packing::Clock::now() - begin).count();
      if (now - asked >= kAsk) {
        asked = now;
        interrupted = !call_python([] {});
      }
      return interrupted || now >= time_limit;
    });
  }
  return {Column(static_cast<py::ssize_t>(offsets.size()), offsets.data()), interrupted};
}

Bytes max_load(const Column& size, const Column& lower, const Column& upper, Tick period,
               Bytes alignment) {
  const packing::Problem problem = problem_of(size, lower, upper, period, alignment);
  const py::gil_scoped_release release;
  return packing::make_ring(problem).max_load;
}

std::optional<std::pair<std::size_t, std::size_t>> first_overlap(const Column& begin,
                                                                 const Column& end,
                                                                 const Column& low,
                                                                 const Column& high) {
  const auto view = [&](const Column& column) {
    if (column.size() != begin.size()) throw std::invalid_argument("columns differ in length");
    return std::span{column.data(), static_cast<std::size_t>(column.size())};
  };
  const packing::PlacedBlocks blocks{view(begin), view(end), view(low), view(high)};
  for (std::size_t row = 0; row < blocks.begin.size(); ++row) {
    if (blocks.begin[row] >= blocks.end[row] || blocks.low[row] >= blocks.high[row]) {
      throw std::invalid_argument("row " + std::to_string(row) + " is empty");
    }
  }
  const py::gil_scoped_release release;
  return packing::first_overlap(blocks);
}

std::tuple<Column, Bytes, bool> solve(const std::string& method, const Column& size,
                                      const Column& lower, const Column& upper, Tick period,
                                      Bytes alignment, const Column& offsets, Bytes bound,
                                      double time_limit, int threads, std::uint64_t seed,
                                      const py::object& observer) {
  if (threads < 1) throw std::invalid_argument("threads is below 1");
  const packing::Problem problem = problem_of(size, lower, upper, period, alignment);
  const packing::Offsets incumbent(offsets.data(), offsets.data() + offsets.size());
  // If this returns false, the search ends.
  const auto listen = [&](std::span<const packing::Progress> progress) {
    return call_python([&] {
      if (observer.is_none()) return;
      for (const packing::Progress& step : progress) {
        observer(step.seconds, step.arena, step.bound);
      }
    });
  };
  packing::Outcome outcome;
  {
    const py::gil_scoped_release release;
    outcome =
        packing::solve(method, problem, incumbent, bound, time_limit, {threads, seed}, listen);
  }
  Column best(static_cast<py::ssize_t>(outcome.offsets.size()), outcome.offsets.data());
  return {std::move(best), outcome.bound, outcome.interrupted};
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const packing::Packer& packer : packing::packers()) all.emplace_back(packer.name);
  return all;
}

}  // namespace

void bind_packing(py::module_& module) {
  module.def(
      "pack", &pack, py::arg("packer"), py::arg("size"), py::arg("lower"), py::arg("upper"),
      py::arg("period"), py::arg("alignment"), py::arg("time_limit"),
      "Return offsets (n,) in bytes for blocks with sizes (n,) and lifetimes [lower, upper),\n"
      "and whether Ctrl-C was pressed.\n\n"
      "Lifetimes are in ticks of a circle of `period` ticks; 0: no circle. After `time_limit`\n"
      "seconds or Ctrl-C, the remaining blocks are stacked above the placed blocks. Raises\n"
      "ValueError if there is no packer of this name. Releases the GIL.");
  module.def("max_load", &max_load, py::arg("size"), py::arg("lower"), py::arg("upper"),
             py::arg("period"), py::arg("alignment"),
             "Return the largest sum of aligned sizes that are live at one tick, in bytes.");
  module.def(
      "first_overlap", &first_overlap, py::arg("begin"), py::arg("end"), py::arg("low"),
      py::arg("high"),
      "Return two rows that are live at the same tick and share a byte. The first of the two\n"
      "does not begin earlier than the second. Return None if no rows share a byte. A row\n"
      "lives in ticks [begin, end) on bytes [low, high); all columns have shape (n,).\n\n"
      "Raises ValueError if a row is empty or the columns differ in length. Releases the GIL.");
  module.def(
      "solve", &solve, py::arg("method"), py::arg("size"), py::arg("lower"), py::arg("upper"),
      py::arg("period"), py::arg("alignment"), py::arg("offsets"), py::arg("bound"),
      py::arg("time_limit"), py::arg("threads"), py::arg("seed"), py::arg("observer"),
      "Improve the packing `offsets` (n,) by \"search\" or \"branch-and-bound\".\n\n"
      "Return the offsets, the proved lower bound in bytes, and whether Ctrl-C was pressed.\n"
      "Ends after `time_limit` seconds, after Ctrl-C, when the packing is optimal, or when no\n"
      "more progress is made. Unless `observer` is None, it is called in this thread with\n"
      "(seconds, arena bytes, bound) for each improvement. Raises ValueError if the method is\n"
      "unknown or `threads` is below 1. Releases the GIL.");
  module.def("packers", &names, "Return the names of the packers, fastest first.");
}

}  // namespace pgmo

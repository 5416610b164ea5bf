// Counts the physical pages that a plan's arenas need, for pgmo/allocator/plans/shared_pages.py.

#include "engine/memory/sharing.hpp"

#include <pybind11/numpy.h>

#include <algorithm>
#include <array>

#include "bindings/module.hpp"

namespace py = pybind11;

namespace pgmo {
namespace {

using Column = py::array_t<std::int64_t, py::array::c_style>;

std::size_t count_shared_pages(const Column& arena, const Column& first, const Column& last,
                               const Column& begin, const Column& end, Tick ticks) {
  const py::ssize_t rows = arena.size();
  for (const py::ssize_t other : {first.size(), last.size(), begin.size(), end.size()}) {
    if (other != rows) throw py::value_error("the columns of the uses differ in length");
  }
  std::vector<PageUse> uses;
  std::uint32_t arenas = 0;
  for (py::ssize_t row = 0; row < rows; ++row) {
    const PageUse& use = uses.emplace_back(PageUse{
        .arena = static_cast<std::uint32_t>(arena.data()[row]),
        .first = static_cast<std::size_t>(first.data()[row]),
        .last = static_cast<std::size_t>(last.data()[row]),
        .from = begin.data()[row],
        .to = end.data()[row],
    });
    arenas = std::max(arenas, use.arena + 1);
  }
  const py::gil_scoped_release release;
  return share_pages(uses, arenas, std::array{PlanTicks{0, ticks}}).size();
}

}  // namespace

void bind_sharing(py::module_& module) {
  module.def(
      "count_shared_pages", &count_shared_pages, py::arg("arena"), py::arg("first"),
      py::arg("last"), py::arg("begin"), py::arg("end"), py::arg("ticks"),
      "Return the number of physical pages that arenas need if they share pages. Each row is a\n"
      "use of the pages `first` to `last` (inclusive) of an arena, during the ticks from\n"
      "`begin` to `end` (exclusive). The plan has `ticks` ticks. Streams are assumed to run in\n"
      "the order of the ticks.\n\n"
      "Raises ValueError if the columns differ in length.");
}

}  // namespace pgmo

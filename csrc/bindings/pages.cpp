// Bindings of the pages: the function table for adapters, and sleep.

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/module.hpp"
#include "pages/c_api.hpp"
#include "pages/space.hpp"

namespace py = pybind11;

namespace pgmo {
namespace {

using Runs = std::vector<std::pair<std::uintptr_t, Bytes>>;

pages::Space& space_at(std::uintptr_t handle) {
  return *pages::space_of(reinterpret_cast<pgmo_space*>(handle));
}

Runs pairs(const std::vector<pages::Extent>& extents) {
  Runs out;
  out.reserve(extents.size());
  for (const pages::Extent& one : extents) out.emplace_back(one.address, one.bytes);
  return out;
}

std::tuple<pages::Sleep, Runs> prepare_sleep(std::uintptr_t space, const Runs& blocks) {
  std::vector<pages::Extent> extents;
  extents.reserve(blocks.size());
  for (const auto& [address, bytes] : blocks) extents.push_back({address, bytes});
  std::vector<pages::Extent> runs;
  const pages::Sleep sleep = space_at(space).prepare_sleep(extents, runs);
  return {sleep, pairs(runs)};
}

std::tuple<bool, Runs> wake(std::uintptr_t space, pages::Sleep sleep) {
  std::vector<pages::Extent> runs;
  const bool awake = space_at(space).wake(sleep, runs);
  return {awake, pairs(runs)};
}

}  // namespace

void bind_pages(py::module_& module) {
  module.def(
      "pages_api", [] { return reinterpret_cast<std::uintptr_t>(pages::pages_api()); },
      "Return the address of the function table in pgmo_pages.h, for adapters.");

  const auto without_gil = py::call_guard<py::gil_scoped_release>();
  module.def("prepare_sleep", &prepare_sleep, py::arg("space"), py::arg("blocks"), without_gil,
             "Prepare for sleep the pages that only these blocks occupy; a block is (address,\n"
             "bytes). Return the number of the sleep (0 during a capture), and the runs of\n"
             "pages, as (address, bytes), whose contents the caller must save.");
  module.def(
      "begin_sleep",
      [](std::uintptr_t space, pages::Sleep sleep) { return space_at(space).begin_sleep(sleep); },
      py::arg("space"), py::arg("sleep"), without_gil,
      "Give the prepared pages back to the device, and return their bytes. No running work may\n"
      "use them.");
  module.def(
      "end_sleep",
      [](std::uintptr_t space, pages::Sleep sleep) { space_at(space).end_sleep(sleep); },
      py::arg("space"), py::arg("sleep"), without_gil,
      "Cancel a sleep before `begin_sleep`, or end it after `wake`.");
  module.def("wake", &wake, py::arg("space"), py::arg("sleep"), without_gil,
             "Map pages at the sleeping addresses. Return False during a capture or if there are\n"
             "too few pages, else True; and the runs, as (address, bytes), whose contents the\n"
             "caller must restore after it has synchronized the device.");
  module.def(
      "forget_peak", [](std::uintptr_t space) { space_at(space).forget_peak(); }, py::arg("space"),
      without_gil,
      "Set the highest occupancy to the pages in use now: above it, requests take idle pages\n"
      "before new pages are created.");
}

}  // namespace pgmo

// Bindings of the native heuristics, for pgmo/allocator/heuristics.py.

#include "heuristics.hpp"

#include "bindings/module.hpp"

namespace py = pybind11;

namespace pgmo {

void bind_heuristics(py::module_& module) {
  py::class_<Heuristics>(module, "Heuristics",
                         "Heuristics of the native code. csrc/heuristics.hpp documents the fields.")
      .def(py::init<>(), "Create the default heuristics.")
      .def_readwrite("confirmations", &Heuristics::confirmations)
      .def_readwrite("look_ahead", &Heuristics::look_ahead)
      .def_readwrite("length_ratio", &Heuristics::length_ratio)
      .def_readwrite("spare_share", &Heuristics::spare_share)
      .def_readwrite("small_block", &Heuristics::small_block)
      .def_readwrite("stale_mappings", &Heuristics::stale_mappings)
      .def_readwrite("freed_per_event", &Heuristics::freed_per_event)
      .def_readwrite("most_arrangements", &Heuristics::most_arrangements)
      .def_readwrite("lending_share", &Heuristics::lending_share);
  module.def(
      "use_heuristics", [](const Heuristics& chosen) { process_heuristics = chosen; },
      py::arg("chosen"), "Set the heuristics for engines and page spaces created from now on.");
  module.def(
      "used_heuristics", [] { return process_heuristics; },
      "Return the heuristics for new engines and page spaces.");
}

}  // namespace pgmo

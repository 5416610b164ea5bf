// The packers: arrays in, offsets out.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>

#include "bindings/module.hpp"
#include "packing/packer.hpp"

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

Column pack(const std::string& name, const Column& size, const Column& lower, const Column& upper,
            Tick period, Bytes alignment) {
  const packing::Packer* packer = packing::find_packer(name);
  if (packer == nullptr) throw std::invalid_argument("no packer is called " + name);
  const packing::Problem problem = problem_of(size, lower, upper, period, alignment);
  packing::Offsets offsets;
  {
    const py::gil_scoped_release release;
    offsets = packer->pack(packing::make_ring(problem));
  }
  return Column(static_cast<py::ssize_t>(offsets.size()), offsets.data());
}

Bytes max_load(const Column& size, const Column& lower, const Column& upper, Tick period,
               Bytes alignment) {
  const packing::Problem problem = problem_of(size, lower, upper, period, alignment);
  const py::gil_scoped_release release;
  return packing::make_ring(problem).max_load;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const packing::Packer& packer : packing::packers()) all.emplace_back(packer.name);
  return all;
}

}  // namespace

void bind_packing(py::module_& module) {
  module.def("pack", &pack, py::arg("packer"), py::arg("size"), py::arg("lower"), py::arg("upper"),
             py::arg("period"), py::arg("alignment"),
             "Offsets (n,) in bytes for blocks with sizes (n,) and lifetimes [lower, upper).\n\n"
             "Raises ValueError naming the row when the problem is malformed. Releases the GIL.");
  module.def("max_load", &max_load, py::arg("size"), py::arg("lower"), py::arg("upper"),
             py::arg("period"), py::arg("alignment"),
             "Largest sum of aligned sizes alive at one tick, in bytes.");
  module.def("packers", &names, "Names of the packers, fastest first.");
}

}  // namespace pgmo

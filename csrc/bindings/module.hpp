// Each function here binds one part of the native code, and has a file of its own.

#pragma once

#include <pybind11/pybind11.h>

namespace pgmo {

void bind_alignment(pybind11::module_& module);
void bind_packing(pybind11::module_& module);
void bind_baseline(pybind11::module_& module);
void bind_block(pybind11::module_& module);
void bind_cupy_allocator(pybind11::module_& module);
void bind_engine(pybind11::module_& module);
void bind_heuristics(pybind11::module_& module);
void bind_operator_begin(pybind11::module_& module);
void bind_pages(pybind11::module_& module);
void bind_recompute(pybind11::module_& module);
void bind_sharing(pybind11::module_& module);

}  // namespace pgmo

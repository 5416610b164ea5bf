// The Python module `pgmo._core`: names and docstrings, no logic.

#include "bindings/module.hpp"

PYBIND11_MODULE(_core, module) {
  module.doc() =
      "Native parts of pgmo: the packers, the engine, and the comparison of iterations and steps.";
  pgmo::bind_alignment(module);
  pgmo::bind_packing(module);
  pgmo::bind_baseline(module);
  pgmo::bind_block(module);
  pgmo::bind_engine(module);
  pgmo::bind_heuristics(module);
  pgmo::bind_cupy_allocator(module);
  pgmo::bind_pages(module);
  pgmo::bind_recompute(module);
  pgmo::bind_sharing(module);
}

// The Python module `pgmo._core`.

#include "bindings/module.hpp"

PYBIND11_MODULE(_core, module) {
  module.doc() =
      "Native code of pgmo: engine, pages, packers, alignment of iterations, recompute searches.";
  pgmo::bind_alignment(module);
  pgmo::bind_packing(module);
  pgmo::bind_baseline(module);
  pgmo::bind_block(module);
  pgmo::bind_engine(module);
  pgmo::bind_heuristics(module);
  pgmo::bind_cupy_allocator(module);
  pgmo::bind_operator_begin(module);
  pgmo::bind_pages(module);
  pgmo::bind_recompute(module);
  pgmo::bind_sharing(module);
}

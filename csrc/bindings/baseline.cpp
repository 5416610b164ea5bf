// Bindings of the model of PyTorch's allocator: the function table for adapters, and the model.

#include "baseline/baseline.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "baseline/allocator.hpp"
#include "bindings/module.hpp"

namespace py = pybind11;

namespace pgmo {
namespace {

using baseline::Block;
using baseline::BlockPool;

using Divisions = std::array<Bytes, std::size(pgmo_baseline_settings{}.roundup_power2_divisions)>;

// The model, with a number for each block instead of a pointer. Numbers ascend by request.
class ModelledAllocator {
 public:
  ModelledAllocator(bool expandable_segments, const Divisions& divisions, Bytes max_split_size,
                    Bytes max_non_split_rounding, double threshold, Bytes large_segment_size,
                    Bytes capacity, Bytes card)
      : model_(
            [&] {
              pgmo_baseline_settings settings{
                  .expandable_segments = expandable_segments,
                  .roundup_power2_divisions = {},
                  .max_split_size = max_split_size,
                  .max_non_split_rounding = max_non_split_rounding,
                  .large_segment_size = large_segment_size,
                  .garbage_collection_threshold = threshold,
              };
              std::ranges::copy(divisions, settings.roundup_power2_divisions);
              return settings;
            }(),
            {.capacity = capacity > 0 ? capacity : baseline::kUnlimited, .total = card}) {}

  // Return the block's number and address, or (-1, 0) if memory is exhausted.
  std::tuple<std::int64_t, Bytes> allocate(Bytes size, std::uint64_t stream,
                                           std::uint64_t user_pool) {
    Block* const block = model_.allocate(size, stream, user_pool);
    if (block == nullptr) return {-1, 0};
    living_.emplace(next_, block);
    return {next_++, block->address};
  }

  void free(std::int64_t number) { model_.free(take(number)); }

  std::uint64_t postpone(std::int64_t number) { return model_.postpone(take(number)); }

  baseline::CachingAllocator& model() { return model_; }

  // Return size, address and stream of each free block, and whether its pool has small blocks.
  std::vector<std::tuple<Bytes, Bytes, std::uint64_t, bool>> free_blocks() const {
    std::vector<std::tuple<Bytes, Bytes, std::uint64_t, bool>> all;
    model_.for_each_pool([&](const BlockPool& pool) {
      pool.for_each_free([&](const Block* block) {
        all.emplace_back(block->size, block->address, pool.stream, pool.small);
      });
    });
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  Block* take(std::int64_t number) {
    const auto found = living_.find(number);
    if (found == living_.end()) throw py::key_error("no live block has this number");
    Block* const block = found->second;
    living_.erase(found);
    return block;
  }

  baseline::CachingAllocator model_;
  std::unordered_map<std::int64_t, Block*> living_;
  std::int64_t next_ = 0;
};

}  // namespace

void bind_baseline(py::module_& module) {
  module.def(
      "baseline_api", [] { return reinterpret_cast<std::uintptr_t>(baseline::baseline_api()); },
      "Return the address of the function table in pgmo_baseline.h, for adapters.");

  using Model = ModelledAllocator;
  py::class_<Model>(module, "ModelledAllocator",
                    "Model of PyTorch's CUDA caching allocator, for one device.")
      .def(py::init<bool, const Divisions&, Bytes, Bytes, double, Bytes, Bytes, Bytes>(),
           py::arg("expandable_segments"), py::arg("roundup_power2_divisions"),
           py::arg("max_split_size"), py::arg("max_non_split_rounding"),
           py::arg("garbage_collection_threshold"), py::arg("large_segment_size"),
           py::arg("capacity"), py::arg("card"),
           "Create an allocator without blocks. Sizes are in bytes. For `max_split_size` and\n"
           "`capacity`, 0 means no limit; for `card`, 0 means an unknown size.")
      .def("allocate", &Model::allocate, py::arg("bytes"), py::arg("stream"),
           py::arg("user_pool") = 0,
           "Allocate a block. Return its number and address, or (-1, 0) if memory is exhausted.\n"
           "`user_pool` is the number of a MemPool, 0 for none.")
      .def("free", &Model::free, py::arg("block"),
           "Free a block. Raises KeyError if no live block has this number.")
      .def("postpone", &Model::postpone, py::arg("block"),
           "Begin to free a block that other streams use. Return a number to pass to `settle`.\n"
           "Raises KeyError if no live block has this number.")
      .def(
          "settle", [](Model& self, std::uint64_t number) { self.model().settle(number); },
          py::arg("number"),
          "Complete a free that `postpone` began, because other streams no longer use the\n"
          "block. No effect if the number is unknown or the block was freed earlier.")
      .def(
          "empty_cache", [](Model& self) { self.model().empty_cache(); },
          "Free all postponed blocks, and give free memory back to the driver.")
      .def(
          "close_pool",
          [](Model& self, std::uint64_t user_pool) {
            self.model().release_pool(user_pool);
            self.model().empty_pool(user_pool);
          },
          py::arg("user_pool"),
          "End a MemPool, as the destructor of torch.cuda.MemPool does: free memory of the pool\n"
          "goes back to the driver.")
      .def(
          "set_fraction", [](Model& self, double fraction) { self.model().set_fraction(fraction); },
          py::arg("fraction"),
          "Limit the program to this share of the card's memory. A negative value removes the\n"
          "limit. No effect if `card` is 0.")
      .def("free_blocks", &Model::free_blocks,
           "Return (size, address, stream, is_small) of each free block, sorted.")
      .def_property_readonly("reserved", [](Model& self) { return self.model().reserved(); })
      .def_property_readonly("peak_reserved",
                             [](Model& self) { return self.model().peak_reserved(); })
      .def_property_readonly("active", [](Model& self) { return self.model().active(); })
      .def_property_readonly("retries", [](Model& self) { return self.model().retries(); });
}

}  // namespace pgmo

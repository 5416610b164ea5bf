// Implementation of the C functions in pgmo_baseline.h.

#include <new>

#include "baseline/baseline.hpp"
#include "forks.hpp"

namespace pgmo::baseline {
namespace {

// Model of a device. Never destroyed, because tensors may outlive static destructors.
struct OpenedModel {
  OpenedModel(const pgmo_baseline_settings& settings, const CardMemory& card)
      : model(settings, card),
        fork_lock(
            ForkRank::kLeaf, &model,
            [](void* context) { static_cast<Baseline*>(context)->before_fork(); },
            [](void* context, int) { static_cast<Baseline*>(context)->after_fork(); }) {}

  Baseline model;
  const ForkLock fork_lock;
};

Baseline& at(pgmo_baseline* handle) noexcept {
  return reinterpret_cast<OpenedModel*>(handle)->model;
}

pgmo_baseline* open(const pgmo_baseline_settings* settings, std::int64_t capacity,
                    std::int64_t card) {
  try {
    return reinterpret_cast<pgmo_baseline*>(new OpenedModel(*settings, CardMemory{capacity, card}));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

constexpr pgmo_baseline_api kApi = {
    .version = PGMO_BASELINE_API_VERSION,
    .size = sizeof(pgmo_baseline_api),
    .open = open,
    .add_segment =
        [](pgmo_baseline* one, std::uint64_t stream, int small, int expandable,
           const pgmo_baseline_piece* pieces, std::size_t count) {
          at(one).add_segment(stream, small != 0, expandable != 0, {pieces, count});
        },
    .allocated =
        [](pgmo_baseline* one, std::uintptr_t address, std::int64_t bytes, std::uint64_t stream,
           std::uint64_t user_pool,
           int beneath) { at(one).allocated(address, bytes, stream, user_pool, beneath != 0); },
    .freed = [](pgmo_baseline* one, std::uintptr_t address,
                int beneath) { at(one).freed(address, beneath != 0); },
    .postponed = [](pgmo_baseline* one, std::uintptr_t address) -> std::uint64_t {
      return at(one).postponed(address);
    },
    .settled = [](pgmo_baseline* one, std::uint64_t number) { at(one).settled(number); },
    .is_of_other_stream = [](pgmo_baseline* one, std::uintptr_t address, std::uint64_t stream)
        -> int { return at(one).is_of_other_stream(address, stream); },
    .failed = [](pgmo_baseline* one, std::int64_t bytes,
                 std::uint64_t stream) { at(one).failed(bytes, stream); },
    .empty_cache = [](pgmo_baseline* one) { at(one).empty_cache(); },
    .release_pool = [](pgmo_baseline* one,
                       std::uint64_t user_pool) { at(one).release_pool(user_pool); },
    .empty_pool = [](pgmo_baseline* one,
                     std::uint64_t user_pool) { at(one).empty_pool(user_pool); },
    .set_fraction = [](pgmo_baseline* one, double fraction) { at(one).set_fraction(fraction); },
    .private_segments = [](pgmo_baseline* one,
                           std::int64_t change) { at(one).private_segments(change); },
    .private_blocks = [](pgmo_baseline* one,
                         std::int64_t change) { at(one).private_blocks(change); },
    .took = [](pgmo_baseline* one, std::int64_t change) { at(one).took(change); },
    .figures = [](pgmo_baseline* one, pgmo_baseline_figures* out) { *out = at(one).figures(); },
};

}  // namespace

const pgmo_baseline_api* baseline_api() noexcept {
  return &kApi;
}

}  // namespace pgmo::baseline

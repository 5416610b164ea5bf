// Implementation of the C functions in pgmo_baseline.h.

#include "baseline/c_api.hpp"

#include <new>

#include "baseline/baseline.hpp"
#include "forks.hpp"

namespace pgmo::baseline {
namespace {

// Model of a device. Never destroyed, because tensors may outlive static destructors.
struct OpenedModel {
  OpenedModel(const Settings& settings, const CardMemory& its_card)
      : model(settings, its_card),
        card(its_card.total),
        fork_lock(
            ForkRank::kLeaf, &model,
            [](void* context) { static_cast<Baseline*>(context)->before_fork(); },
            [](void* context, int) { static_cast<Baseline*>(context)->after_fork(); }) {}

  Baseline model;
  const Bytes card;
  const ForkLock fork_lock;
};

Baseline& at(pgmo_baseline* handle) noexcept {
  return reinterpret_cast<OpenedModel*>(handle)->model;
}

Settings settings_of(const pgmo_baseline_settings& given) {
  Settings settings;
  settings.expandable_segments = given.expandable_segments != 0;
  for (std::size_t at = 0; at < settings.roundup_power2_divisions.size(); ++at) {
    settings.roundup_power2_divisions[at] = given.roundup_power2_divisions[at];
  }
  settings.max_split_size = given.max_split_size > 0 ? given.max_split_size : kUnlimited;
  settings.max_non_split_rounding = given.max_non_split_rounding;
  settings.large_segment_size = given.large_segment_size;
  settings.garbage_collection_threshold = given.garbage_collection_threshold;
  return settings;
}

pgmo_baseline* open(const pgmo_baseline_settings* settings, std::int64_t capacity,
                    std::int64_t card) {
  try {
    return reinterpret_cast<pgmo_baseline*>(
        new OpenedModel(settings_of(*settings), CardMemory{capacity, card}));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void add_segment(pgmo_baseline* handle, std::uint64_t stream, int small, int expandable,
                 const pgmo_baseline_piece* given, std::size_t count) {
  at(handle).add_segment(stream, small != 0, expandable != 0, {given, count});
}

void fill_figures(pgmo_baseline* handle, pgmo_baseline_figures* out) {
  const Figures now = at(handle).figures();
  *out = {.reserved = now.reserved,
          .peak_reserved = now.peak_reserved,
          .live = now.live,
          .peak_live = now.peak_live,
          .taken = now.taken,
          .peak_taken = now.peak_taken,
          .card = reinterpret_cast<OpenedModel*>(handle)->card,
          .requests = now.requests,
          .retries = now.retries,
          .failures = now.failures,
          .broken = now.broken};
}

constexpr pgmo_baseline_api kApi = {
    .version = PGMO_BASELINE_API_VERSION,
    .size = sizeof(pgmo_baseline_api),
    .open = open,
    .add_segment = add_segment,
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
    .figures = fill_figures,
};

}  // namespace

const pgmo_baseline_api* baseline_api() noexcept {
  return &kApi;
}

}  // namespace pgmo::baseline

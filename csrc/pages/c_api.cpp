// Implementation of the C functions in pgmo_pages.h.

#include "pages/c_api.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <vector>

#include "forks.hpp"

namespace pgmo::pages {
namespace {

// The device behind an adapter's function table.
class AdapterDevice final : public DeviceDriver {
 public:
  explicit AdapterDevice(const pgmo_pages_device& table) : calls_(table) {}

  Address reserve(Bytes bytes) noexcept override {
    return calls_.reserve(calls_.context, static_cast<std::uint64_t>(bytes));
  }
  bool create(Handle& page) noexcept override { return calls_.create(calls_.context, &page) != 0; }
  void release(Handle page) noexcept override { calls_.release(calls_.context, page); }
  bool map(Address address, Handle page) noexcept override {
    return calls_.map(calls_.context, address, page) != 0;
  }
  bool grant(Address address, Bytes bytes) noexcept override {
    return calls_.grant(calls_.context, address, static_cast<std::uint64_t>(bytes)) != 0;
  }
  void unmap(Address address, Bytes bytes) noexcept override {
    calls_.unmap(calls_.context, address, static_cast<std::uint64_t>(bytes));
  }
  Event record(Stream stream) noexcept override { return calls_.record(calls_.context, stream); }
  bool completed(Event event) noexcept override {
    return calls_.completed(calls_.context, event) != 0;
  }
  void discard(Event event) noexcept override { calls_.discard(calls_.context, event); }
  bool wait(Stream stream, Event event) noexcept override {
    return calls_.wait(calls_.context, stream, event) != 0;
  }
  void took(Bytes bytes) noexcept override { calls_.took(calls_.context, bytes); }
  bool capturing() noexcept override { return calls_.capturing(calls_.context) != 0; }

 private:
  const pgmo_pages_device calls_;
};

// A page space and its device. Never destroyed, because tensors may outlive static destructors.
struct OpenedSpace {
  OpenedSpace(const pgmo_pages_device& table, const DeviceProperties& properties)
      : device(table), space(device, properties) {}

  AdapterDevice device;
  Space space;
};

Address address_of(const void* pointer) {
  return reinterpret_cast<Address>(pointer);
}

static_assert(kMostStreams == PGMO_MOST_STREAMS);

pgmo_space* open(const pgmo_pages_device* table, std::uint64_t page, int aliases) {
  DeviceProperties properties;
  properties.page = static_cast<Bytes>(page);
  properties.aliases = aliases != 0;
  try {
    return reinterpret_cast<pgmo_space*>(&(new OpenedSpace(*table, properties))->space);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void fill_statistics(pgmo_space* handle, pgmo_pages_statistics* out) {
  const PageStatistics now = space_of(handle)->statistics();
  const Meter& meter = space_of(handle)->meter();
  const auto bytes = [](Bytes value) { return static_cast<std::uint64_t>(value); };
  const auto usage = [&](const Usage& of) {
    return pgmo_usage{bytes(of.bytes), bytes(of.blocks), bytes(of.pages)};
  };
  *out = {.held_bytes = bytes(now.held),
          .occupied_bytes = bytes(now.occupied),
          .live_bytes = bytes(now.live),
          .now = usage(meter.now()),
          .peak = usage(meter.peak()),
          .living_bytes = bytes(meter.living()),
          .allocated_bytes = now.allocated,
          .allocations = now.allocations,
          .creates = now.creates,
          .releases = now.releases};
}

std::uintptr_t share(pgmo_space* space, const void* block, std::uint64_t bytes,
                     void (*visit)(void*, std::uint64_t), void* context) {
  try {
    std::vector<Handle> pages;
    const Extent range{address_of(block), static_cast<Bytes>(bytes)};
    const Address begin = space_of(space)->share(range, pages);
    for (const Handle page : pages) visit(context, page);
    return begin;
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

constexpr pgmo_pages_api kApi = {
    .version = PGMO_PAGES_API_VERSION,
    .size = sizeof(pgmo_pages_api),
    .open = open,
    .allocate = [](pgmo_space* space, std::size_t bytes, std::uint32_t stream,
                   std::uint64_t pool) -> void* {
      if (bytes > static_cast<std::size_t>(std::numeric_limits<Bytes>::max())) return nullptr;
      return reinterpret_cast<void*>(
          space_of(space)->allocate(static_cast<Bytes>(bytes), stream, pool));
    },
    .idle_in = [](pgmo_space* space, std::uint64_t pool) -> std::uint64_t {
      return static_cast<std::uint64_t>(space_of(space)->idle_in(pool));
    },
    .close_pool = [](pgmo_space* space, std::uint64_t pool) { space_of(space)->close_pool(pool); },
    .deallocate = [](pgmo_space* space, void* block) -> int {
      return space_of(space)->deallocate(address_of(block));
    },
    .use_block = [](pgmo_space* space, void* block, std::uint32_t stream) -> int {
      return space_of(space)->use_block(address_of(block), stream);
    },
    .size_of = [](pgmo_space* space, const void* block) -> std::uint64_t {
      return static_cast<std::uint64_t>(space_of(space)->bytes_of(address_of(block)));
    },
    .owns = [](pgmo_space* space, const void* address) -> int {
      return space_of(space)->owns(address_of(address));
    },
    .for_each =
        [](pgmo_space* space, void (*visit)(void*, std::uintptr_t, std::uint64_t, std::uint32_t),
           void* context) {
          space_of(space)->for_each([&](Extent block, Stream stream) {
            visit(context, block.address, static_cast<std::uint64_t>(block.bytes), stream);
          });
        },
    .for_each_run =
        [](pgmo_space* space,
           void (*visit)(void*, std::uintptr_t, std::uint64_t, std::uint32_t, std::uint64_t),
           void* context) {
          space_of(space)->for_each_run([&](Extent run, Stream stream, PoolNumber pool) {
            visit(context, run.address, static_cast<std::uint64_t>(run.bytes), stream, pool);
          });
        },
    .ordered =
        [](pgmo_space* space, int what, std::uint32_t stream, std::uint64_t event) {
          constexpr int kFirst = 4;  // PGMO_RECORDED in pgmo_engine.h
          constexpr int kLast = kFirst + static_cast<int>(Clocks::Ordered::kLost);
          if (what < kFirst || what > kLast) return;
          space_of(space)->ordered(static_cast<Clocks::Ordered>(what - kFirst), stream, event);
        },
    .note_capture = [](pgmo_space* space) { space_of(space)->note_capture(); },
    .share = share,
    .for_each_shared =
        [](pgmo_space* space, void (*visit)(void*, std::uint64_t), void* context) {
          space_of(space)->for_each_shared([&](Handle page) { visit(context, page); });
        },
    .grant_again = [](pgmo_space* space) { space_of(space)->grant_again(); },
    .give_back = [](pgmo_space* space, std::uint64_t bytes) -> std::uint64_t {
      constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<Bytes>::max());
      return static_cast<std::uint64_t>(
          space_of(space)->give_back(static_cast<Bytes>(std::min(bytes, kMost))));
    },
    .expect_lasting = [](pgmo_space* space, int on) { space_of(space)->expect_lasting(on != 0); },
    .limit =
        [](pgmo_space* space, std::uint64_t bytes) {
          constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<Bytes>::max());
          space_of(space)->limit(static_cast<Bytes>(std::min(bytes, kMost)));
        },
    .beneath_grew = [](pgmo_space* space) -> int {
      return space_of(space)->meter().beneath_grew();
    },
    .set_beneath =
        [](pgmo_space* space, const pgmo_usage* usage) {
          const auto bytes = [](std::uint64_t value) { return static_cast<Bytes>(value); };
          space_of(space)->meter().confirm(
              {bytes(usage->bytes), bytes(usage->blocks), bytes(usage->pages)});
        },
    .unconfirmed = [](pgmo_space* space) { return space_of(space)->meter().unconfirmed(); },
    .statistics = fill_statistics,
    .reset_peaks = [](pgmo_space* space) { space_of(space)->reset_peaks(); },
    .at_fork = [](int which, void* context, ForkLock::Take take, ForkLock::Free free) -> int {
      static_assert(static_cast<int>(ForkRank::kAdapter) == PGMO_LOCKS_OUTER);
      static_assert(static_cast<int>(ForkRank::kLeaf) == PGMO_LOCKS_LEAF);
      const auto rank = static_cast<ForkRank>(which);
      return new (std::nothrow) ForkLock(rank, context, take, free) != nullptr;
    },
};

}  // namespace

const pgmo_pages_api* pages_api() noexcept {
  return &kApi;
}

Space* space_of(pgmo_space* handle) noexcept {
  return reinterpret_cast<Space*>(handle);
}

}  // namespace pgmo::pages

// Drives the model of PyTorch's allocator, and glibc's malloc beside it; see bench/baseline.py.
//
//     baseline_bench PAIRS BLOCKS...     one line for each: what, blocks, nanoseconds per pair
//
// A pair is a request and its free. Blocks die in an order of their own: half of them at once, the
// others in reverse, as activations do.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <vector>

#include "baseline/c_api.hpp"

namespace {

struct Event {
  std::uint32_t block;
  std::int64_t bytes;  // 0: its end
};

// One iteration, of `blocks` requests.
std::vector<Event> iteration(std::uint32_t blocks) {
  std::mt19937_64 random(7);
  std::vector<Event> events;
  std::vector<std::uint32_t> kept;
  for (std::uint32_t block = 0; block < blocks; ++block) {
    const auto kind = random() % 10;
    const std::int64_t bytes = kind < 4   ? 512 + static_cast<std::int64_t>(random() % 4096)
                               : kind < 9 ? static_cast<std::int64_t>((1 + random() % 64) << 16)
                                          : static_cast<std::int64_t>((1 + random() % 32) << 20);
    events.push_back({block, bytes});
    if (random() % 2 == 0) {
      events.push_back({block, 0});
    } else {
      kept.push_back(block);
    }
  }
  while (!kept.empty()) {
    events.push_back({kept.back(), 0});
    kept.pop_back();
  }
  return events;
}

double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

template <typename Run>
double nanoseconds(std::uint32_t blocks, std::uint64_t pairs, Run&& run) {
  const std::uint64_t times = pairs / blocks + 1;
  run();  // caches and tables are warm
  const double begin = now();
  for (std::uint64_t turn = 0; turn < times; ++turn) run();
  return (now() - begin) / static_cast<double>(times * blocks);
}

}  // namespace

int main(int count, char** arguments) {
  const std::uint64_t pairs = std::strtoull(arguments[1], nullptr, 10);
  const pgmo_baseline_api* const api = pgmo::baseline::baseline_api();
  for (int at = 2; at < count; ++at) {
    const auto blocks = static_cast<std::uint32_t>(std::strtoul(arguments[at], nullptr, 10));
    const std::vector<Event> events = iteration(blocks);
    pgmo_baseline_settings settings{};
    settings.max_non_split_rounding = settings.large_segment_size = 20 << 20;
    pgmo_baseline* const model = api->open(&settings, std::int64_t{1} << 50, std::int64_t{1} << 50);
    const double modelled = nanoseconds(blocks, pairs, [&] {
      for (const Event& event : events) {
        // Addresses as pgmo gives them: multiples of 512.
        const std::uintptr_t address = (std::uintptr_t{event.block} + 1) << 21;
        if (event.bytes > 0) {
          api->allocated(model, address, event.bytes, 0, 0);
        } else {
          api->freed(model, address, 0);
        }
      }
    });
    std::vector<void*> living(blocks);
    const double allocated = nanoseconds(blocks, pairs, [&] {
      for (const Event& event : events) {
        if (event.bytes > 0) {
          living[event.block] = std::malloc(static_cast<std::size_t>(event.bytes / 64 + 16));
        } else {
          std::free(living[event.block]);
        }
      }
    });
    std::printf("model %u %.2f\nmalloc %u %.2f\n", blocks, modelled, blocks, allocated);
  }
  return 0;
}

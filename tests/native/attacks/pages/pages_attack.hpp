// Functions that the attacks on pages share: see fuzz_pages.cpp and fuzz_paged.cpp.

#pragma once

#include <algorithm>
#include <csignal>
#include <cstdint>

#include "fake_device.hpp"
#include "oracle.hpp"
#include "pages/space.hpp"
#include "pages_fixture.hpp"
#include "random.hpp"

namespace pgmo::test {

inline pages::DeviceProperties random_properties(Random& random, const FakeDevice& device) {
  pages::DeviceProperties properties = properties_of(device);
  properties.aliases = random.chance(0.8);
  return properties;
}

inline Heuristics random_heuristics(Random& random, const FakeDevice& device) {
  Heuristics heuristics = heuristics_for(device);
  if (random.chance(0.2)) heuristics.small_block = 1;
  if (random.chance(0.2)) heuristics.spare_share = 1;
  heuristics.stale_mappings =
      static_cast<std::size_t>(random.chance(0.5) ? 0 : random.between(1, 400));
  heuristics.freed_per_event = device.page() * random.between(1, 100);
  heuristics.confirmations = static_cast<int>(random.between(0, 3));
  if (random.chance(0.2)) heuristics.spare_share = 0;
  if (random.chance(0.2)) heuristics.most_arrangements = static_cast<int>(random.between(0, 8));
  return heuristics;
}

// Streams that run their work at a random speed; one of them may be held.
class RandomStreams {
 public:
  RandomStreams(Random& random, FakeDevice& device, pages::Stream count)
      : random_(random), device_(device), count_(count), speed_(random.between(0, 6)) {}

  pages::Stream count() const { return count_; }
  pages::Stream any() { return static_cast<pages::Stream>(random_.between(0, count_ - 1)); }
  void hold_one_or_none() { held_ = random_.between(-1, count_ - 1); }

  // Run some work. Called after each event.
  void work() {
    std::int64_t choices = random_.between(0, std::int64_t{1} << 60);  // ten bits each
    device_.run(speed_, [&] {
      const auto stream = static_cast<pages::Stream>(choices % 1024 % count_);
      choices /= 1024;
      return static_cast<std::int64_t>(stream) == held_ ? FakeDevice::kNoStream : stream;
    });
    if (whereabouts.event % 64 == 0) {  // limit the pending work of a stream
      for (pages::Stream stream = 0; stream < count_; ++stream) {
        if (device_.queued(stream) > 400) device_.synchronize();
      }
    }
  }

 private:
  Random& random_;
  FakeDevice& device_;
  pages::Stream count_;
  std::int64_t speed_;  // pieces of work for each event
  std::int64_t held_ = -1;
};

// Give all unused pages back. The first call records events, which must be completed before the
// second.
inline void give_all_back(pages::Space& space, FakeDevice& device) {
  space.give_back(Bytes{1} << 40);
  device.synchronize();
  space.give_back(Bytes{1} << 40);
}

// Call `run` with the seed of each episode and its maximum number of events.
template <typename Run>
void for_each_episode(std::uint64_t seed, std::uint64_t events, Run&& run) {
  constexpr std::uint64_t kMostEvents = 6000;
  whereabouts = {seed, 0, 0};
  for (std::uint64_t done = 0; done < events; ++whereabouts.episode) {
    whereabouts.event = 0;
    const std::uint64_t most = std::min(kMostEvents, events - done);
    run(seed * 1'000'003 + whereabouts.episode, most);
    done += most;
  }
}

// Call `run` with the seed and the number of events of each crowd. All crowds together have four
// tenths of the episodes' events. More events make more crowds, not longer ones, because each crowd
// differs.
template <typename Run>
void for_each_crowd(std::uint64_t seed, std::uint64_t events, Run&& run) {
  constexpr std::uint64_t kMostEvents = 100'000;
  const std::uint64_t all = events / 10 * 4;
  const std::uint64_t crowds = std::max<std::uint64_t>(4, (all + kMostEvents - 1) / kMostEvents);
  for (std::uint64_t crowd = 0; crowd < crowds; ++crowd)
    run(seed * 1'000'003 + crowd, all / crowds);
}

// Make the use of inaccessible memory a violation.
inline void notice_faults() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers report more
  std::signal(SIGSEGV, [](int) { violation("memory is used that is not there"); });
#endif
}

}  // namespace pgmo::test

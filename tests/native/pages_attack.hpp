// What the attacks on pages have in common, whoever asks for them: see fuzz_pages.cpp and
// fuzz_paged.cpp.

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

inline pages::Tuning random_tuning(Random& random, const FakeDevice& device) {
  const Bytes page = device.page();
  pages::Tuning tuning = tuning_for(device);
  tuning.slack = static_cast<std::size_t>(random.between(0, 1) * 20);
  tuning.aliases = random.chance(0.8);
  tuning.most_stale = static_cast<std::size_t>(random.chance(0.5) ? 0 : random.between(1, 400));
  tuning.freed_per_event = page * random.between(1, 100);
  return tuning;
}

// Streams that do their work at a speed of their own; one of them may be held.
class RandomStreams {
 public:
  RandomStreams(Random& random, FakeDevice& device, pages::Stream count)
      : random_(random), device_(device), count_(count), speed_(random.between(0, 6)) {}

  pages::Stream count() const { return count_; }
  pages::Stream any() { return static_cast<pages::Stream>(random_.between(0, count_ - 1)); }
  void hold_one_or_none() { held_ = random_.between(-1, count_ - 1); }

  // After each event.
  void work() {
    for (std::int64_t steps = 0; steps < speed_; ++steps) {
      const pages::Stream stream = any();
      if (static_cast<std::int64_t>(stream) != held_) device_.step(stream);
    }
    if (whereabouts.event % 64 == 0) {  // no program is far behind for ever
      for (pages::Stream stream = 0; stream < count_; ++stream) {
        if (device_.queued(stream) > 400) device_.synchronize();
      }
    }
  }

 private:
  Random& random_;
  FakeDevice& device_;
  pages::Stream count_;
  std::int64_t speed_;
  std::int64_t held_ = -1;
};

// What nothing uses any more; the first time records what has to be completed.
inline void give_all_back(pages::Space& space, FakeDevice& device) {
  space.give_back(Bytes{1} << 40);
  device.synchronize();
  space.give_back(Bytes{1} << 40);
}

// Calls `run` with the seed of each episode and the most events that it may have.
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

// Memory that is used and not there is a violation like others.
inline void notice_faults() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they say more
  std::signal(SIGSEGV, [](int) { violation("memory is used that is not there"); });
#endif
}

}  // namespace pgmo::test

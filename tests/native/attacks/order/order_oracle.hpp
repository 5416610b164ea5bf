// Knows what is ordered before what, by counting, and believes nothing that the pages say.
//
//     stream 0   ──1──2──▲e──3──▶            counts of what each stream has been given
//     stream 1   ──1──2──▽w──3──4──▶         from its 3 on it is behind the 2 of stream 0
//
// Two of them watch a program: one hears of the program's own events and waits alone, the other of
// those that the pages add, too.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "pages/device.hpp"

namespace pgmo::test {

inline constexpr std::uint32_t kOrderedStreams = 4;

using Counts = std::array<std::uint64_t, kOrderedStreams>;

inline void raise(Counts& counts, const Counts& others) {
  for (std::uint32_t at = 0; at < kOrderedStreams; ++at) {
    counts[at] = std::max(counts[at], others[at]);
  }
}

class OrderOracle {
 public:
  void given(pages::Stream stream) { ++given_[stream]; }
  std::uint64_t count(pages::Stream stream) const { return given_[stream]; }
  const Counts& counts() const { return given_; }

  // All that a stream has come behind so far, itself included.
  Counts here(pages::Stream stream) const {
    Counts counts = behind_[stream];
    counts[stream] = given_[stream];
    return counts;
  }

  void wait(pages::Stream stream, const Counts& counts) { raise(behind_[stream], counts); }

  // The host has waited: whatever is given to anyone from now on comes later.
  void host_waits(const Counts& counts) { raise(host_, counts); }

  bool is_behind(pages::Stream stream, pages::Stream other, std::uint64_t count) const {
    return stream == other || behind_[stream][other] >= count || host_[other] >= count;
  }

 private:
  Counts given_{};
  Counts host_{};
  std::array<Counts, kOrderedStreams> behind_{};
};

// The last uses of each page, and those through each address.
class Uses {
 public:
  using Key = std::uint64_t;

  void add(Key key, const Counts& uses) { raise(uses_[key], uses); }
  void forget(Key key) { uses_.erase(key); }

  const Counts& of(Key key) const {
    static const Counts none{};
    const auto found = uses_.find(key);
    return found == uses_.end() ? none : found->second;
  }

 private:
  std::unordered_map<Key, Counts> uses_;
};

}  // namespace pgmo::test

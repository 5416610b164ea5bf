// Oracle of the order of streams. It counts submitted work, and does not rely on the pages.
//
//     stream 0   ──1──2──▲e──3──▶            counts of the work submitted to each stream
//     stream 1   ──1──2──▽w──3──4──▶         its work from 3 on is behind work 2 of stream 0
//
// Two oracles observe a program: one only the program's own events and waits, the other also the
// events and waits that the pages add.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <unordered_map>

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

  // Return the work of each stream that the later work of this stream is behind.
  Counts here(pages::Stream stream) const {
    Counts counts = behind_[stream];
    counts[stream] = given_[stream];
    return counts;
  }

  void wait(pages::Stream stream, const Counts& counts) { raise(behind_[stream], counts); }

  // Record that the host has waited for this work: all work submitted later comes after it.
  void host_waits(const Counts& counts) { raise(host_, counts); }

  bool is_behind(pages::Stream stream, pages::Stream other, std::uint64_t count) const {
    return stream == other || behind_[stream][other] >= count || host_[other] >= count;
  }

 private:
  Counts given_{};
  Counts host_{};
  std::array<Counts, kOrderedStreams> behind_{};
};

// The last uses by key: of each page, or through each address.
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

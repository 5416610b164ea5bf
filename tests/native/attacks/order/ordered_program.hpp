// A random iteration of several streams: requests, and the calls between them that order the
// streams. Its plan has the order that the oracle knows.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/memory/sharing.hpp"
#include "order_oracle.hpp"
#include "random.hpp"
#include "rows.hpp"

namespace pgmo::test {

// A call of the program between two requests.
struct Act {
  enum class Kind : std::uint8_t { kRecord, kWait, kWaitOnHost };
  Kind kind;
  std::size_t event;  // index of the program's event
  pages::Stream stream;
};

class OrderedProgram {
 public:
  static constexpr std::size_t kEvents = 6;
  static constexpr Bytes kPage = Bytes{2} << 20;

  explicit OrderedProgram(Random& random)
      : ticks(random.between(6, 40)), acts(static_cast<std::size_t>(ticks)) {
    const double rate = static_cast<double>(random.between(1, 9)) / 10;
    const bool host = random.chance(0.2);
    for (auto& here : acts) {
      while (random.chance(rate) && here.size() < 8) {
        here.push_back({Act::Kind::kRecord, any_event(random), any_stream(random)});
        here.push_back(any_wait(random, host));
      }
      const Bytes bytes = random.between(1, 4) * kPage - (random.chance(0.3) ? 512 : 0);
      const Tick tick = std::ssize(rows);
      rows.push_back(slot(bytes, tick + random.between(1, ticks), 0, any_stream(random)));
    }
    place();
  }

  static pages::Stream any_stream(Random& random) {
    return static_cast<pages::Stream>(random.between(0, kOrderedStreams - 1));
  }
  static std::size_t any_event(Random& random) {
    return static_cast<std::size_t>(random.between(0, kEvents - 1));
  }
  static Act any_wait(Random& random, bool host) {
    const bool on_host = host && random.chance(0.05);
    return {on_host ? Act::Kind::kWaitOnHost : Act::Kind::kWait, any_event(random),
            any_stream(random)};
  }

  // Return the tick from which each stream comes after each block, as in StreamOrder::behind.
  // Simulates some iterations.
  std::vector<Tick> behind() const {
    constexpr Tick kFirst = 2, kTurns = 6;
    OrderOracle oracle;
    std::array<Counts, kEvents> events{};
    std::vector<Tick> table(rows.size() * kOrderedStreams, kNeverOrdered);
    std::vector<std::uint64_t> used(rows.size());
    for (Tick now = 0; now < kTurns * ticks; ++now) {
      for_each_row([&](std::size_t row) {
        if (now == kFirst * ticks + rows[row].end) used[row] = oracle.count(stream_of(row));
      });
      for (const Act& one : acts[static_cast<std::size_t>(now % ticks)]) {
        if (one.kind == Act::Kind::kRecord) events[one.event] = oracle.here(one.stream);
        if (one.kind == Act::Kind::kWait) {
          oracle.wait(one.stream, events[one.event]);
          oracle.given(one.stream);
        }
        if (one.kind == Act::Kind::kWaitOnHost) oracle.host_waits(oracle.here(one.stream));
      }
      for_each_row([&](std::size_t row) {
        if (now < kFirst * ticks + rows[row].end) return;
        for (pages::Stream stream = 0; stream < kOrderedStreams; ++stream) {
          Tick& tick = table[row * kOrderedStreams + stream];
          if (tick == kNeverOrdered && oracle.is_behind(stream, stream_of(row), used[row])) {
            tick = now - kFirst * ticks;
          }
        }
      });
      oracle.given(stream_of(static_cast<std::size_t>(now % ticks)));
    }
    return table;
  }

  Tick ticks;
  std::vector<std::vector<Act>> acts;  // calls before each request
  std::vector<PlannedRequest> rows;
  std::array<Bytes, kOrderedStreams> begins{};
  std::array<Bytes, kOrderedStreams> sizes{};
  Bytes whole = 0;

 private:
  template <typename Visit>
  void for_each_row(Visit&& visit) const {
    for (std::size_t row = 0; row < rows.size(); ++row) visit(row);
  }

  pages::Stream stream_of(std::size_t row) const { return rows[row].stream_index; }

  // Place each block as low as possible, disjoint from blocks of its stream that live at the same
  // time.
  void place() {
    for (pages::Stream stream = 0; stream < kOrderedStreams; ++stream) {
      begins[stream] = whole;
      Bytes high = 0;
      std::vector<std::size_t> placed;
      for_each_row([&](std::size_t row) {
        if (stream_of(row) != stream) return;
        rows[row].offset = lowest(row, placed);
        high = std::max(high, rows[row].offset - whole + rows[row].bytes);
        placed.push_back(row);
      });
      sizes[stream] = std::max<Bytes>((high + kPage - 1) / kPage, 1) * kPage;
      whole += sizes[stream];
    }
  }

  Offset lowest(std::size_t row, const std::vector<std::size_t>& placed) const {
    Offset offset = whole;
    for (bool moved = true; moved;) {
      moved = false;
      for (const std::size_t other : placed) {
        const Offset end = rows[other].offset + rows[other].bytes;
        if (offset >= end || rows[other].offset >= offset + rows[row].bytes) continue;
        if (!meet(static_cast<Tick>(row), static_cast<Tick>(other))) continue;
        offset = (end + 511) / 512 * 512;
        moved = true;
      }
    }
    return offset;
  }

  bool meet(Tick one, Tick other) const {
    const auto lives = [&](Tick row, Tick tick) {
      return (tick - row + ticks) % ticks < rows[static_cast<std::size_t>(row)].end - row;
    };
    return lives(one, other) || lives(other, one);
  }
};

}  // namespace pgmo::test

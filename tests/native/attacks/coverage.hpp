// Counts of an attack's events, which show that the attack reaches all of them.

#pragma once

#include <cstdint>
#include <cstdio>
#include <iterator>

#include "engine/statistics.hpp"

namespace pgmo::test {

struct Coverage {
  Counters counters;
  std::uint64_t events = 0;
  std::uint64_t yields = 0;

  void add(const Coverage& one) {
    events += one.events;
    yields += one.yields;
    counters.requests += one.counters.requests;
    counters.hits += one.counters.hits;
    for (std::size_t at = 0; at < std::size(counters.misses); ++at) {
      counters.misses[at] += one.counters.misses[at];
    }
    counters.late += one.counters.late;
    counters.jumps += one.counters.jumps;
    counters.takeovers += one.counters.takeovers;
  }

  bool complete() const {
    bool all = counters.hits > counters.requests / 10;
    for (const std::uint64_t reason : counters.misses) all = all && reason > 0;
    for (const std::uint64_t count : {counters.late, counters.jumps, counters.takeovers, yields}) {
      all = all && count > 0;
    }
    return all;
  }

  void print() const {
    const char* const kReasons[] = {"persistent", "unknown", "too large",
                                    "occupied",   "late",    "no arena"};
    static_assert(std::size(kReasons) == static_cast<std::size_t>(Miss::kCount));
    print("requests", counters.requests);
    print("hits", counters.hits);
    for (std::size_t at = 0; at < std::size(kReasons); ++at) {
      print(kReasons[at], counters.misses[at]);
    }
    std::printf("\n");
    print("blocks late", counters.late);
    print("jumps", counters.jumps);
    print("takeovers", counters.takeovers);
    print("yields", yields);
    std::printf("\n");
  }

 private:
  static void print(const char* what, std::uint64_t count) {
    std::printf("%s %llu  ", what, static_cast<unsigned long long>(count));
  }
};

}  // namespace pgmo::test

// The command line of an attack:  fuzz_replay --seed 7 --events 100000
//
// Both options may be left out. Other arguments are ignored.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace pgmo::test {

struct Arguments {
  std::uint64_t seed;
  std::uint64_t events;
};

inline Arguments read_arguments(int argc, char** argv, std::uint64_t events) {
  Arguments read{.seed = 1, .events = events};
  for (int at = 1; at + 1 < argc; at += 2) {
    const std::uint64_t value = std::strtoull(argv[at + 1], nullptr, 10);
    if (std::strcmp(argv[at], "--seed") == 0) read.seed = value;
    if (std::strcmp(argv[at], "--events") == 0) read.events = value;
  }
  return read;
}

}  // namespace pgmo::test

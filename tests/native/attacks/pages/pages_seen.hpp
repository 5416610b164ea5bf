// Counts of the events of an attack on pages, which show that the attack reaches all of them.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "oracle.hpp"
#include "pages/space.hpp"

namespace pgmo::test {

struct Seen {
  pages::PageStatistics sum;
  std::uint64_t blocks = 0;
  std::uint64_t pool_blocks = 0;
  std::uint64_t slots = 0;
  std::uint64_t uncounted_slots = 0;
  std::uint64_t refused = 0;
  std::uint64_t given_back = 0;
  std::uint64_t pins = 0;
  std::uint64_t slept = 0;
  std::uint64_t woken = 0;
  int most_mappings = 0;

  void add(const pages::PageStatistics& more, int mappings) {
    most_mappings = std::max(most_mappings, mappings);
    sum.maps += more.maps;
    sum.unmaps += more.unmaps;
    sum.creates += more.creates;
    sum.taken += more.taken;
    sum.lends += more.lends;
    sum.waits += more.waits;
    sum.surrenders += more.surrenders;
  }

  void require_all() const {
    require(blocks > 0 && slots > 0 && uncounted_slots > 0, "nothing was served");
    require(pool_blocks > 0, "no pool was served");
    require(refused > 0 && given_back > 0 && pins > 0, "nothing was refused");
    require(sum.lends > 0 && sum.waits > 0 && most_mappings > 1, "nothing was lent");
    require(sum.surrenders > 0, "no plan was surrendered");
    require(slept > 0 && woken > 0, "no block slept");
  }

  void print(std::uint64_t seed, std::uint64_t events) const {
    const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
    std::printf(
        "seed %llu: %llu events, no violation; %llu blocks, %llu slots (%llu uncounted), %llu "
        "refused, "
        "%llu maps, %llu taken, %llu lent, %llu waits, %llu surrenders, %d mappings of a page\n",
        number(seed), number(events), number(blocks), number(slots), number(uncounted_slots),
        number(refused), number(sum.maps), number(sum.taken), number(sum.lends), number(sum.waits),
        number(sum.surrenders), most_mappings);
  }
};

}  // namespace pgmo::test

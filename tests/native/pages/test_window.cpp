// Tests of best fit in a window, against a map of each byte.

#include <algorithm>
#include <map>
#include <vector>

#include "check.hpp"
#include "pages/window.hpp"
#include "random.hpp"

using namespace pgmo;
using namespace pgmo::test;
using pages::Address;
using pages::Extent;
using pages::PageWindow;

TEST(a_window_finds_what_fits_best_and_joins_what_touches) {
  Random random(1);
  constexpr Bytes kWhole = 400;
  for (int round = 0; round < 40; ++round) {
    PageWindow window;
    window.add({1000, kWhole});
    std::vector<bool> taken(kWhole);
    std::map<Address, Bytes> living;
    for (int step = 0; step < 400; ++step) {
      const Bytes bytes = random.between(1, 40);
      Address best = 0;
      Bytes smallest = kWhole + 1;
      for (Bytes run = 0, end = 0; run < kWhole; run = end + 1) {
        for (end = run; end < kWhole && !taken[static_cast<std::size_t>(end)];) ++end;
        if (end - run < bytes || end - run >= smallest) continue;
        best = 1000 + static_cast<Address>(run);
        smallest = end - run;
      }
      CHECK_EQ(window.find(bytes), best);
      if (best != 0) {
        // Take a range anywhere in a gap, as next to blocked addresses.
        const Address at = best + static_cast<Address>(random.between(0, smallest - bytes));
        window.take({at, bytes});
        std::fill_n(taken.begin() + static_cast<std::ptrdiff_t>(at - 1000), bytes, true);
        living.emplace(at, bytes);
      }
      while (!living.empty() && random.chance(0.5)) {
        auto one = living.lower_bound(1000 + static_cast<Address>(random.between(0, kWhole)));
        if (one == living.end()) one = living.begin();
        window.give({one->first, one->second});
        std::fill_n(taken.begin() + static_cast<std::ptrdiff_t>(one->first - 1000), one->second,
                    false);
        living.erase(one);
      }
    }
    for (const auto& [address, bytes] : living) window.give({address, bytes});
    CHECK_EQ(window.gaps(), 1u);
  }
}

TEST(blocked_ranges_are_avoided) {
  PageWindow window;
  window.add({1000, 100});
  const std::vector<Extent> blocked = {{1000, 10}, {1030, 10}};
  CHECK_EQ(window.find_outside(20, blocked), 1010u);
  CHECK_EQ(window.find_outside(21, blocked), 1040u);
  CHECK_EQ(window.find_outside(61, blocked), 0u);
  CHECK_EQ(window.find_within(20, 1050, 1069), 0u);
  CHECK_EQ(window.find_within(20, 1050, 1070), 1050u);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}

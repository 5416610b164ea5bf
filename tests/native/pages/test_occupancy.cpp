// Test of the pages that a whole program needs beyond its live bytes.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "check.hpp"
#include "pages/space.hpp"
#include "pages_fixture.hpp"
#include "random.hpp"

using namespace pgmo;
using namespace pgmo::test;
using pages::Address;
using pages::PageStatistics;
using pages::Space;

// Training with checkpoints at varying lengths: sizes of a Llama of a billion parameters, scaled
// like the fake pages. Weights, gradients and state stay; activations are freed.
TEST(a_program_of_any_length_needs_three_percent_more_than_what_lives) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    PagesFixture f(6000);
    Space space(f.device, f.properties, f.heuristics);
    Random random(seed);
    const Bytes scale = (Bytes{2} << 20) / f.device.page();
    constexpr int kLayers = 16;
    constexpr Bytes kHidden = 2048;
    Bytes peak_occupied = 0;
    const auto request = [&](Bytes bytes) {
      const Address block = space.allocate(std::max<Bytes>(bytes / scale, 1), 0);
      CHECK(block != 0);
      peak_occupied = std::max(peak_occupied, space.statistics().occupied);
      return block;
    };
    std::vector<Address> weights;
    for (int layer = 0; layer < kLayers; ++layer) {
      for (const Bytes columns : {3, 1, 4, 4}) {
        for (int copy = 0; copy < 2; ++copy)
          weights.push_back(request(kHidden * kHidden * columns * 2));
      }
      weights.push_back(request(kHidden * 2));
    }
    for (int iteration = 0; iteration < 12; ++iteration) {
      const Bytes tokens = 4 * random.between(64, 1024);
      const Bytes unit = tokens * kHidden * 2;
      std::vector<Address> checkpoints;
      std::vector<Address> gradients;
      const auto inside = [&](bool backward) {
        std::vector<Address> some;
        for (const Bytes width : {1, 3, 1, 4, 4, 1}) some.push_back(request(unit * width));
        some.push_back(request(tokens * 4));
        if (backward) {
          for (const Bytes width : {4, 1, 3}) {
            const Address gradient = request(unit * width);
            gradients.push_back(request(kHidden * kHidden * width * 2));
            space.deallocate(gradient);
          }
        }
        for (Address block : some) space.deallocate(block);
      };
      for (int layer = 0; layer < kLayers; ++layer) {
        checkpoints.push_back(request(unit));
        inside(false);
      }
      const Address logits = request(tokens * 32000 * 2);
      const Address losses = request(tokens * 32000 * 4);
      space.deallocate(losses);
      space.deallocate(logits);
      for (int layer = 0; layer < kLayers; ++layer) {
        inside(true);
        space.deallocate(checkpoints.back());
        checkpoints.pop_back();
      }
      for (Address block : gradients) space.deallocate(block);
    }
    const PageStatistics now = space.statistics();
    const auto peak_live = static_cast<double>(space.meter().peak().bytes);
    CHECK(static_cast<double>(peak_occupied) <= 1.01 * peak_live);
    std::printf("  seed %llu: live / pages %.4f, %llu maps, %llu requests that map\n",
                static_cast<unsigned long long>(seed),
                peak_live / static_cast<double>(now.peak_held),
                static_cast<unsigned long long>(now.maps),
                static_cast<unsigned long long>(now.requests_that_map));
    CHECK(static_cast<double>(now.peak_held) <= 1.03 * peak_live);
    for (Address block : weights) space.deallocate(block);
    CHECK_EQ(space.statistics().occupied, 0);
  }
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}

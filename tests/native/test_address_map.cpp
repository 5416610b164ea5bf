#include <cstdint>
#include <unordered_map>

#include "check.hpp"
#include "engine/address_map.hpp"
#include "random_plan.hpp"

using pgmo::AddressMap;

TEST(finds_what_was_inserted) {
  AddressMap<int> map;
  map.insert(64, 1);
  map.insert(128, 2);
  CHECK_EQ(*map.find(64), 1);
  CHECK_EQ(*map.find(128), 2);
  CHECK(map.find(96) == nullptr);
  CHECK_EQ(map.size(), 2u);
}

TEST(an_insertion_at_a_known_address_replaces) {
  AddressMap<int> map;
  map.insert(64, 1);
  map.insert(64, 2);
  CHECK_EQ(*map.find(64), 2);
  CHECK_EQ(map.size(), 1u);
}

TEST(erases_once) {
  AddressMap<int> map;
  map.insert(64, 1);
  CHECK(map.erase(64));
  CHECK(!map.erase(64));
  CHECK(map.find(64) == nullptr);
  CHECK_EQ(map.size(), 0u);
}

TEST(agrees_with_the_standard_map_through_growth_and_removals) {
  pgmo::test::Random random(7);
  AddressMap<std::int64_t> map;
  std::unordered_map<std::uintptr_t, std::int64_t> truth;
  for (std::int64_t turn = 0; turn < 200'000; ++turn) {
    // Few different addresses, so that there are long runs of neighbours to shift back.
    const auto address = static_cast<std::uintptr_t>(random.between(1, 6000)) * 16;
    if (random.chance(0.55)) {
      map.insert(address, turn);
      truth[address] = turn;
    } else {
      CHECK_EQ(map.erase(address), truth.erase(address) == 1);
    }
  }
  CHECK_EQ(map.size(), truth.size());
  for (std::uintptr_t address = 16; address <= 6000 * 16; address += 16) {
    const std::int64_t* found = map.find(address);
    const auto expected = truth.find(address);
    CHECK_EQ(found != nullptr, expected != truth.end());
    if (found != nullptr && expected != truth.end()) CHECK_EQ(*found, expected->second);
  }
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}

#include <cstdint>
#include <unordered_map>

#include "check.hpp"
#include "engine/memory/address_map.hpp"
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
    // Few different addresses make long runs of neighbours that a removal shifts back.
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

TEST(erases_by_predicate_what_the_standard_map_does) {
  pgmo::test::Random random(11);
  for (int turn = 0; turn < 200; ++turn) {
    AddressMap<int> map;
    std::unordered_map<std::uintptr_t, int> truth;
    for (int at = 0; at < 500; ++at) {
      const auto address = static_cast<std::uintptr_t>(random.between(1, 2000)) * 16;
      map.insert(address, at);
      truth[address] = at;
    }
    std::size_t erased = 0;
    const auto odd = [&](std::uintptr_t, int value) { return value % 2 != 0; };
    map.erase_if([&](std::uintptr_t address, int value) {
      erased += odd(address, value) ? 1 : 0;
      return odd(address, value);
    });
    CHECK_EQ(erased, std::erase_if(truth, [&](const auto& one) { return one.second % 2 != 0; }));
    CHECK_EQ(map.size(), truth.size());
    for (const auto& [address, value] : truth) {
      CHECK(map.find(address) != nullptr && *map.find(address) == value);
    }
  }
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}

// Requests of the attack on pages, and properties of its device.

#pragma once

#include <cstdint>

#include "fake_device.hpp"
#include "pages/space.hpp"
#include "pages_attack.hpp"
#include "random.hpp"

namespace pgmo::test {

// A live block or slot: its contents, and the other streams that have used it.
struct Held {
  pages::Extent where;
  pages::Stream stream;
  std::uint64_t pattern;
  std::uint64_t users = 0;
};

inline pages::DeviceProperties any_properties(Random& random, const FakeDevice& device) {
  pages::DeviceProperties properties = random_properties(random, device);
  properties.granularity = random.chance(0.5) ? 512 : 64;
  properties.span = device.page() * random.between(2, 4000);
  return properties;
}

inline Bytes any_size(Random& random, Bytes page) {
  if (random.chance(0.4)) return random.between(1, page / 2);
  if (random.chance(0.8)) return random.between(page / 2, page * 8);
  return random.between(page, page * 150);
}

}  // namespace pgmo::test

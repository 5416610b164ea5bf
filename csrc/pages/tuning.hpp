// The values that pages are managed by, with their reasons.

#pragma once

#include <cstddef>

#include "types.hpp"

namespace pgmo::pages {

struct Tuning {
  // The least that the driver maps. Larger pages cost one to five percent of memory.
  Bytes page = Bytes{2} << 20;

  // Requests below it lie in a window of their own, so that a page that a small block pins is full
  // of small blocks. PyTorch draws the same line.
  Bytes small = Bytes{1} << 20;

  // Of a block's address: what every framework promises its users.
  Bytes granularity = 512;

  // Addresses that a window reserves at a time, more than any card has.
  Bytes span = Bytes{256} << 30;

  // How far above the highest occupancy so far, in thousandths, pages are created before idle ones
  // are taken. On twenty loops five cost half a percent of memory and saved no request that maps;
  // twenty saved a third of the calls, hardly a request, and cost 1.5 %. Attacks use both.
  std::size_t slack = 0;

  // Of the bytes in a planned range's slots, what may be wasted at their ends while a program
  // departs from its plan, as a divisor. The waste of windows is about as much.
  Bytes waste = 128;

  // Whether a page may be mapped at a second address while it is still mapped at a first one.
  bool aliases = true;

  // Mappings that are kept although their page is used elsewhere. One that is still right when its
  // address comes round again saves two calls of the driver; all of them cost it memory and time.
  std::size_t most_stale = std::size_t{1} << 16;

  // Pages; 139 GiB are 71,168 of 2 MiB.
  std::size_t most_pages = std::size_t{1} << 17;

  // An event is recorded once so many bytes have been freed on a stream, so that those who need to
  // know later find one that is not too late. Nothing depends on it.
  Bytes freed_per_event = Bytes{64} << 20;
};

}  // namespace pgmo::pages

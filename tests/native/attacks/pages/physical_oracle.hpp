// Oracle of the bytes and pages that each live block has. It does not rely on the page space.
//
//     blocks    [──── a ────]     [─ b ─]        at different addresses
//     page 7    xxxx.xxxxxxxx.....               must not be the same bytes, and must stay there
//
// One word stands for a page, with a bit per 64 bytes: blocks begin and end at multiples of 64
// bytes.

#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "fake_device.hpp"
#include "oracle.hpp"

namespace pgmo::test {

class PhysicalOracle {
 public:
  explicit PhysicalOracle(FakeDevice& device) : device_(device) {}

  void lives(pages::Extent block) {
    require_whole_units(block);
    const std::lock_guard guard(mutex_);
    device_.for_each_piece(block, [&](const Piece& piece, pages::Handle page) {
      require(page != 0, "a block lives where no page is");
      Address& here = at(addresses_, piece.number);
      if (here.blocks == 0) here.page = page;
      require(here.page == page, "the pages of a living block have changed");
      ++here.blocks;
      std::uint64_t& used = at(used_, FakeMemory::frame_of(page));
      require((used & bits(piece)) == 0, "two living blocks share memory");
      occupied_ += used == 0;
      used |= bits(piece);
    });
    live_ += block.bytes;
  }

  void dies(pages::Extent block) {
    require_whole_units(block);
    const std::lock_guard guard(mutex_);
    device_.for_each_piece(block, [&](const Piece& piece, pages::Handle page) {
      Address& here = at(addresses_, piece.number);
      require(here.blocks > 0, "a block dies that was not alive");
      require(here.page == page, "the pages of a living block have changed");
      --here.blocks;
      std::uint64_t& used = at(used_, FakeMemory::frame_of(page));
      require((used & bits(piece)) == bits(piece), "a block dies that was not alive");
      used &= ~bits(piece);
      occupied_ -= used == 0;
    });
    live_ -= block.bytes;
  }

  // Return the bytes of all pages on which a block lives.
  Bytes occupied() {
    const std::lock_guard guard(mutex_);
    return occupied_ * FakeDevice::page();
  }
  Bytes live() {
    const std::lock_guard guard(mutex_);
    return live_;
  }

 private:
  using Piece = FakeMemory::Piece;

  // One page of addresses: the page mapped there when its first live block was allocated, and the
  // number of live blocks.
  struct Address {
    pages::Handle page = 0;
    std::uint32_t blocks = 0;
  };

  static constexpr std::size_t kUnit = FakeMemory::kPage / 64;

  static void require_whole_units(pages::Extent block) {
    require(block.address % kUnit == 0 && static_cast<std::size_t>(block.bytes) % kUnit == 0,
            "a block does not lie at a multiple of 64 bytes");
  }

  static std::uint64_t bits(const Piece& piece) {
    const std::size_t count = (piece.end - piece.begin) / kUnit;
    return ~std::uint64_t{0} >> (64 - count) << piece.begin / kUnit;
  }

  template <typename T>
  static T& at(std::vector<T>& all, std::size_t number) {
    if (number >= all.size()) all.resize(number + number / 2 + 64);
    return all[number];
  }

  FakeDevice& device_;
  std::mutex mutex_;
  std::vector<Address> addresses_;   // by number in the device's table
  std::vector<std::uint64_t> used_;  // used units of each page, by its place on the card
  Bytes occupied_ = 0;               // number of pages with a live block
  Bytes live_ = 0;
};

}  // namespace pgmo::test

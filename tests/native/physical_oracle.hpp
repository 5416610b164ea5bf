// Knows which bytes of which page each living block has, and believes nothing that the pages say.
//
//     blocks    [──── a ────]     [─ b ─]        at different addresses
//     page 7      [─ a ─]           [─ b ─]      must not be the same bytes, and stay where they
//     are

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "fake_device.hpp"
#include "oracle.hpp"

namespace pgmo::test {

class PhysicalOracle {
 public:
  explicit PhysicalOracle(FakeDevice& device) : device_(device) {}

  void lives(pages::Extent block) {
    const std::lock_guard guard(mutex_);
    const std::vector<Piece> pieces = pieces_of(block);
    for (const Piece& piece : pieces) {
      auto& page = pages_[piece.page];
      const auto after = page.lower_bound(piece.begin);
      require(after == page.end() || after->first >= piece.end, "two living blocks share memory");
      require(after == page.begin() || std::prev(after)->second <= piece.begin,
              "two living blocks share memory");
      page.emplace(piece.begin, piece.end);
    }
    require(blocks_.emplace(block.address, pieces).second, "two living blocks share an address");
    live_ += block.bytes;
  }

  void dies(pages::Extent block) {
    const std::lock_guard guard(mutex_);
    const auto known = blocks_.find(block.address);
    require(known != blocks_.end(), "a block dies that was not alive");
    require(pieces_of(block) == known->second, "the pages of a living block have changed");
    for (const Piece& piece : known->second) {
      auto page = pages_.find(piece.page);
      page->second.erase(piece.begin);
      if (page->second.empty()) pages_.erase(page);
    }
    blocks_.erase(known);
    live_ -= block.bytes;
  }

  // Of whole pages.
  Bytes occupied() {
    const std::lock_guard guard(mutex_);
    return static_cast<Bytes>(pages_.size()) * device_.page();
  }
  Bytes live() {
    const std::lock_guard guard(mutex_);
    return live_;
  }

 private:
  struct Piece {
    pages::Handle page;
    std::uint64_t begin;
    std::uint64_t end;
    bool operator==(const Piece&) const = default;
  };

  std::vector<Piece> pieces_of(pages::Extent block) {
    std::vector<Piece> pieces;
    const auto page = static_cast<std::uint64_t>(device_.page());
    const std::uint64_t end = block.address + static_cast<std::uint64_t>(block.bytes);
    for (std::uint64_t at = block.address; at < end;) {
      const std::uint64_t until = std::min(end, (at / page + 1) * page);
      const pages::Handle handle = device_.page_at(at);
      require(handle != 0, "a block lives where no page is");
      pieces.push_back({handle, at % page, at % page + (until - at)});
      at = until;
    }
    return pieces;
  }

  FakeDevice& device_;
  std::mutex mutex_;
  std::map<pages::Handle, std::map<std::uint64_t, std::uint64_t>> pages_;
  std::map<pages::Address, std::vector<Piece>> blocks_;
  Bytes live_ = 0;
};

}  // namespace pgmo::test

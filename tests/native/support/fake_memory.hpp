// The memory of a device whose addresses are translated in software.
//
//     addresses   ░░░░░░░░  ░░░░░░░░░░░░     reserved and inaccessible: direct accesses fault
//                   │  │       │
//     table       [ 3  7 ]   [ 7 ]           one page per entry; equal pages are aliases
//     card        # # # # # # #              real words
//
// Pages need no system calls, so that attacks spend their time in the code under test. A new page
// does not have the contents that it had before, as on a real device. Not thread-safe; see
// FakeDevice.

#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "oracle.hpp"
#include "pages/device.hpp"

namespace pgmo::test {

class FakeMemory {
 public:
  using Address = pages::Address;
  using Extent = pages::Extent;
  using Handle = pages::Handle;
  using Word = std::uint64_t;

  static constexpr std::size_t kPage = 4096;

  // A piece of a page: the page's number in the table, and offsets in bytes.
  struct Piece {
    std::size_t number;
    std::size_t begin;
    std::size_t end;
  };

  explicit FakeMemory(std::size_t card_pages)
      : words_(std::make_unique_for_overwrite<Word[]>(card_pages * kWords)), frames_(card_pages) {
    void* const base =
        mmap(nullptr, kAddresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(base != MAP_FAILED && card_pages <= kFrames, "the test has no addresses");
    base_ = reinterpret_cast<Address>(base);
    for (std::size_t at = card_pages; at > 0; --at) unused_.push_back(at - 1);
  }
  ~FakeMemory() { munmap(reinterpret_cast<void*>(base_), kAddresses); }
  FakeMemory(const FakeMemory&) = delete;
  FakeMemory& operator=(const FakeMemory&) = delete;

  // --- pages -------------------------------------------------------------------------------------

  std::size_t created() const { return frames_.size() - unused_.size(); }
  std::size_t left() const { return unused_.size(); }

  // Create a page. No two pages ever have the same handle.
  Handle create() {
    const std::size_t frame = unused_.back();
    unused_.pop_back();
    frames_[frame] = {++creations_ * kFrames + frame, 0};
    std::fill_n(words_.get() + frame * kWords, kWords, ~Word{0} / 255 * 0xdb);
    return frames_[frame].handle;
  }

  void release(Handle page) {
    require(exists(page), "a page is released that is not there");
    Frame& frame = frames_[frame_of(page)];
    require(frame.mappings == 0, "a page is released that is still mapped");
    frame.handle = 0;
    unused_.push_back(frame_of(page));
  }

  // Return the page's place on the card. No two existing pages have the same place.
  static std::size_t frame_of(Handle page) { return page % kFrames; }
  bool exists(Handle page) const {
    return frame_of(page) < frames_.size() && page != 0 && frames_[frame_of(page)].handle == page;
  }

  // --- addresses ---------------------------------------------------------------------------------

  // Reserve addresses, and leave out a page before them. Return 0 if there are too few addresses.
  Address reserve(Bytes bytes) {
    const std::size_t count = static_cast<std::size_t>(bytes) / kPage;
    const std::size_t first = table_.size() + 1;
    if (count > kAddresses / kPage) return 0;
    require(first + count <= kAddresses / kPage, "the test has no addresses left");
    table_.resize(first);
    table_.resize(first + count, Entry{.reserved = true});
    return base_ + first * kPage;
  }

  // Require that a page may be mapped at this address.
  void require_vacant(Address address) const {
    require(is_known(address) && entry(address).reserved,
            "a page is mapped where nothing is reserved");
    require(address % kPage == 0, "a page is mapped where no page begins");
    require(!entry(address).mapped, "a page is mapped where another one is");
  }

  // Map a page, and return its number of mappings.
  int map(Address address, Handle page) {
    Entry& here = entry(address);
    here.frame = static_cast<std::uint32_t>(frame_of(page)) & (kFrames - 1);
    here.mapped = true;
    return ++frames_[frame_of(page)].mappings;
  }

  void grant(Extent where) {
    for_each_page(where, "access is granted to what is no page", [](Entry& here) {
      require(here.mapped, "access is granted to what is not mapped");
      here.granted = true;
    });
  }

  void unmap(Extent where) {
    for_each_page(where, "what is unmapped is no page", [&](Entry& here) {
      require(here.pending == 0, "addresses are unmapped that work is still to use");
      require(here.mapped, "a page is unmapped that is not mapped");
      --frames_[here.frame].mappings;
      here = {.reserved = true};
    });
  }

  // --- use ---------------------------------------------------------------------------------------

  // Count pending work on these addresses: `promise` when it is submitted, `fulfil` when it is
  // done.
  void promise(Extent where) {
    for_each_piece(where, [&](const Piece& piece) { ++table_[piece.number].pending; });
  }
  void fulfil(Extent where) {
    for_each_piece(where, [&](const Piece& piece) { --table_[piece.number].pending; });
  }

  // Return the first word of an accessible page.
  Word* accessible(std::size_t number) {
    const Entry& here = table_[number];
    require(here.granted, "work uses what is not mapped");
    return words_.get() + here.frame * kWords;
  }

  // Return the accessible page, or 0.
  Handle page_at(std::size_t number) const {
    const Entry& here = table_[number];
    return here.granted ? frames_[here.frame].handle : 0;
  }
  Handle page_behind(Address address) const {
    return is_known(address) ? page_at((address - base_) / kPage) : 0;
  }

  // Call `visit` with the piece of each page that a block touches.
  template <typename Visit>
  void for_each_piece(Extent where, Visit&& visit) const {
    const Address end = where.end();
    require(where.bytes > 0 && is_known(where.address) && is_known(end - 1),
            "addresses are used that are not reserved");
    std::size_t begin = where.address % kPage;
    std::size_t number = (where.address - base_) / kPage;
    for (std::size_t left = end - where.address; left > 0; ++number) {
      const std::size_t bytes = std::min(left, kPage - begin);
      visit(Piece{number, begin, begin + bytes});
      left -= bytes;
      begin = 0;
    }
  }

 private:
  struct Entry {
    std::uint32_t frame : 29 = 0;
    std::uint32_t reserved : 1 = false;
    std::uint32_t mapped : 1 = false;
    std::uint32_t granted : 1 = false;
    std::uint32_t pending = 0;  // number of pending pieces of work on the page
  };
  struct Frame {
    Handle handle = 0;  // 0: no page
    int mappings = 0;
  };

  static constexpr std::size_t kWords = kPage / sizeof(Word);
  static constexpr std::uint32_t kFrames = 1u << 20;
  static constexpr std::size_t kAddresses = std::size_t{1} << 34;

  bool is_known(Address address) const {
    return address >= base_ && (address - base_) / kPage < table_.size();
  }
  Entry& entry(Address address) { return table_[(address - base_) / kPage]; }
  const Entry& entry(Address address) const { return table_[(address - base_) / kPage]; }

  template <typename Visit>
  void for_each_page(Extent where, const char* otherwise, Visit&& visit) {
    const auto bytes = static_cast<std::size_t>(where.bytes);
    require(where.address % kPage == 0 && bytes % kPage == 0, otherwise);
    for_each_piece(where, [&](const Piece& piece) { visit(table_[piece.number]); });
  }

  std::unique_ptr<Word[]> words_;
  std::vector<Frame> frames_;
  std::vector<std::size_t> unused_;
  std::vector<Entry> table_;
  Address base_ = 0;
  Handle creations_ = 0;
};

}  // namespace pgmo::test

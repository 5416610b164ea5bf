// Guests: blocks in the arena that the plan has no slot for.
//
//     slots    ▓▓▓▓▓▓      ▓▓▓▓▓▓▓      ▓▓▓▓▓▓▓▓     those of the plan that are taken now
//     guests         ░░░░         ░░                 in gaps between them, each a late block from
//                                                    the beginning
//
// Where many requests have no slot, because the iteration has a structure that no plan knows or
// sizes that depend on data, the framework would need as much memory again beside an arena that
// lies idle. A few may go to the framework all the same: each guest may be in the way of a slot.

#pragma once

#include <algorithm>
#include <cstddef>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "engine/memory/gaps.hpp"
#include "types.hpp"

namespace pgmo {

class Guests {
 public:
  // Guests begin at multiples of it behind the start of their arena; 0: none are hosted.
  void host(Bytes alignment) noexcept {
    alignment_ = alignment;
    forget();
  }
  bool hosted() const noexcept { return alignment_ != 0; }
  Bytes alignment() const noexcept { return alignment_; }

  // Whether gaps are kept, so that all that is taken and freed has to be told.
  bool keeping() const noexcept { return !gaps_.empty(); }

  // Of an arena each; the work of making them anew is that of so many changes.
  void keep(std::vector<Gaps> gaps, std::size_t work) noexcept {
    gaps_ = std::move(gaps);
    patience_ = std::max(work, kLeastPatience);
    quiet_ = 0;
  }
  void forget() noexcept { gaps_.clear(); }

  // Where a guest of so many bytes fits in the arena that begins at this offset, outside of some
  // ranges if that can be; or kUnplanned.
  Offset find(Offset arena_begin, Bytes bytes, std::span<const Range> better_not) noexcept {
    quiet_ = 0;
    const Gaps* gaps = of(arena_begin);
    if (gaps == nullptr) return kUnplanned;
    const Offset clear = gaps->find_outside(better_not, bytes);
    return clear != kUnplanned ? clear : gaps->find(bytes);
  }

  void took(Offset offset, Bytes bytes) noexcept {
    change([=](Gaps& gaps) { return gaps.take(offset, bytes); }, offset);
  }
  void freed(Offset offset, Bytes bytes) noexcept {
    change(
        [=](Gaps& gaps) {
          gaps.free(offset, bytes);
          return true;
        },
        offset);
  }

 private:
  static constexpr std::size_t kLeastPatience = 256;

  Gaps* of(Offset offset) noexcept {
    for (Gaps& gaps : gaps_) {
      if (offset >= gaps.whole().begin && offset < gaps.whole().end) return &gaps;
    }
    return nullptr;
  }

  template <typename Change>
  void change(Change&& apply, Offset offset) noexcept {
    Gaps* gaps = of(offset);
    bool right = gaps != nullptr && ++quiet_ < patience_;
    try {
      right = right && apply(*gaps);
    } catch (const std::bad_alloc&) {
      right = false;
    }
    if (!right) forget();
  }

  Bytes alignment_ = 0;
  std::vector<Gaps> gaps_;    // one for each arena
  std::size_t patience_ = 0;  // changes without a guest after which they are not kept any more
  std::size_t quiet_ = 0;     // changes since the last guest
};

}  // namespace pgmo

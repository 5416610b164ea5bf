// Live blocks that the plan no longer vouches for.
//
//     planned   [start────────end)
//     lived     [start────────────────────free)
//                             └─── late ───┘
//
// A block is late from the moment the cursor passes its planned end until it is freed. All live
// blocks of a plan that another plan takes over from are late, too. Late blocks are alive together,
// so they are disjoint, and a map ordered by offset answers an overlap query in logarithmic time.

#pragma once

#include <iterator>
#include <map>

#include "checks.hpp"
#include "types.hpp"

namespace pgmo {

class LateSet {
 public:
  bool empty() const noexcept { return blocks_.empty(); }
  std::size_t size() const noexcept { return blocks_.size(); }

  // Throws std::bad_alloc; the set is unchanged then.
  void insert(Offset offset, Bytes bytes) {
    PGMO_ASSERT_INTERNAL(bytes > 0 && !overlaps(offset, bytes));
    blocks_.emplace(offset, bytes);
  }

  // The bytes of the late block at that offset, which is removed; 0 when there is none.
  Bytes erase(Offset offset) noexcept {
    const auto found = blocks_.find(offset);
    if (found == blocks_.end()) return 0;
    const Bytes bytes = found->second;
    blocks_.erase(found);
    return bytes;
  }

  // The blocks of a range, by their offsets in it. Throws std::bad_alloc.
  LateSet part(Offset begin, Bytes bytes) const {
    LateSet part;
    for (auto at = blocks_.lower_bound(begin); at != blocks_.end() && at->first < begin + bytes;
         ++at) {
      part.blocks_.emplace_hint(part.blocks_.end(), at->first - begin, at->second);
    }
    return part;
  }

  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [offset, bytes] : blocks_) visit(offset, bytes);
  }

  bool overlaps(Offset offset, Bytes bytes) const noexcept {
    const auto after = blocks_.lower_bound(offset);
    if (after != blocks_.end() && after->first < offset + bytes) return true;
    if (after == blocks_.begin()) return false;
    const auto before = std::prev(after);
    return before->first + before->second > offset;
  }

 private:
  std::map<Offset, Bytes> blocks_;
};

}  // namespace pgmo

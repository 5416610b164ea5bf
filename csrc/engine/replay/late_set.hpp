// Live blocks past their planned end: the plan may have other slots at their offsets.
//
//     planned   [start────────end)
//     lived     [start────────────────────free)
//                             └─── late ───┘
//
// A block is late from the moment the cursor passes its planned end until it is freed. When another
// plan takes over, all live blocks of the old plan become late. Late blocks are alive together and
// thus disjoint, so a map ordered by offset finds an overlap in logarithmic time.
//
// Offsets and sizes are in bytes. Not thread-safe: the engine's lock guards it.

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

  // Add a block that overlaps no late block. If this throws std::bad_alloc, the set is unchanged.
  void insert(Offset offset, Bytes bytes) {
    PGMO_ASSERT_INTERNAL(bytes > 0 && !overlaps(offset, bytes));
    blocks_.emplace(offset, bytes);
  }

  // Remove the late block at the offset; return its bytes, or 0 if there is none.
  Bytes erase(Offset offset) noexcept {
    const auto found = blocks_.find(offset);
    if (found == blocks_.end()) return 0;
    const Bytes bytes = found->second;
    blocks_.erase(found);
    return bytes;
  }

  // Return the blocks that begin in a range, with offsets from its begin. Throws std::bad_alloc.
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

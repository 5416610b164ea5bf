// A plan over pages, without an engine. Slots are taken in any order, but live slots do not
// overlap.

#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

#include "pages/space.hpp"
#include "random.hpp"

namespace pgmo::test {

class PretendedPlan final : public pages::RangeOwner {
 public:
  PretendedPlan(pages::Space& space, Bytes bytes, pages::Stream stream)
      : space_(space), stream_(stream) {
    range_ = space.reserve_range(bytes, stream, *this);
  }

  bool reserved() const { return range_ != nullptr; }
  pages::Stream stream() const { return stream_; }

  // Take a random slot. Return false if it overlaps a live slot or gets no page.
  bool take(Random& random, Bytes bytes, pages::Extent& slot) {
    const Bytes whole = range_->where().bytes;
    bytes = std::min(bytes, whole);
    std::uint64_t generation = 0;
    {
      const std::lock_guard guard(mutex_);
      const Bytes offset = random.between(0, (whole - bytes) / 64) * 64;
      slot = {range_->where().address + static_cast<pages::Address>(offset), bytes};
      if (overlaps(slot)) return false;
      living_.emplace(slot.address, slot.bytes);
      generation = range_->generation();
    }
    if (pages::PlannedRange::fully_mapped(generation)) return true;
    if (space_.occupy(*range_, slot, generation)) return true;
    const std::lock_guard guard(mutex_);
    living_.erase(slot.address);
    return false;
  }

  // Free a slot. `late`: delay the call of `vacate`, as if the thread were interrupted before it.
  void free(pages::Extent slot, bool late = false) {
    std::uint64_t generation = 0;
    {
      const std::lock_guard guard(mutex_);
      living_.erase(slot.address);
      generation = range_->generation();
    }
    if (pages::PlannedRange::fully_mapped(generation)) return;
    if (late) {
      late_.push_back({slot, generation});
    } else {
      space_.vacate(*range_, slot, generation);
    }
  }

  void catch_up() {
    for (const Late& one : late_) space_.vacate(*range_, one.slot, one.generation);
    late_.clear();
  }

  bool settle() { return space_.settle(*range_, {range_->where()}); }
  bool fully_mapped() const { return range_->fully_mapped(); }
  bool close() {
    const bool closed = space_.close_range(*range_);
    if (closed) range_ = nullptr;
    return closed;
  }
  std::size_t living() {
    const std::lock_guard guard(mutex_);
    return living_.size();
  }

  void list_living(pages::PlannedRange& range, std::vector<pages::Extent>& living) override {
    const std::lock_guard guard(mutex_);
    for (const auto& [address, bytes] : living_) living.push_back({address, bytes});
    range.count_from_now_on();
  }

 private:
  struct Late {
    pages::Extent slot;
    std::uint64_t generation;
  };

  bool overlaps(pages::Extent slot) const {
    const auto after = living_.lower_bound(slot.address);
    if (after != living_.end() && after->first < slot.end()) {
      return true;
    }
    if (after == living_.begin()) return false;
    const auto before = std::prev(after);
    return before->first + static_cast<pages::Address>(before->second) > slot.address;
  }

  pages::Space& space_;
  pages::Stream stream_;
  pages::PlannedRange* range_ = nullptr;
  std::mutex mutex_;
  std::map<pages::Address, Bytes> living_;
  std::vector<Late> late_;  // delayed calls of one thread
};

}  // namespace pgmo::test

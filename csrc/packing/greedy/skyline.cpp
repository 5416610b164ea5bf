#include "packing/greedy/skyline.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace pgmo::packing {
namespace {

constexpr Offset kEndless = std::numeric_limits<Offset>::max();
constexpr std::uint64_t kAsk = 4096;  // steps between two polls of `stopped`

}  // namespace

bool SkylinePacker::HeapEntry::operator<(const HeapEntry& other) const {
  // The heap has its largest entry on top, so the comparison is reversed.
  return std::tie(other.height, other.begin) < std::tie(height, begin);
}

SkylinePacker::SkylinePacker(const Ring& ring, Stop stopped)
    : ring_(ring),
      stopped_(std::move(stopped)),
      index_(ring),
      // If time is not a circle, the additional line of infinite height takes one rank.
      length_(ring.ranks + (ring.circular ? 0 : 1)),
      offsets_(ring.size.size(), kUnplanned) {}

void SkylinePacker::start(const std::vector<BlockId>& preference) {
  index_.fill(preference);
  std::fill(offsets_.begin(), offsets_.end(), kUnplanned);
  lines_.clear();
  free_.clear();
  heap_.clear();
  if (ring_.circular) {
    lines_.push_back({0, length_, 0, 0, 0, 0});
  } else {
    lines_.push_back({0, ring_.ranks, 0, 1, 1, 0});
    lines_.push_back({ring_.ranks, 1, kEndless, 0, 0, 0});
  }
  push(0);
}

bool SkylinePacker::fill(const std::vector<BlockId>& preference) {
  if (preference.empty()) return true;
  start(preference);
  for (std::size_t left = preference.size(); left > 0;) {
    std::pop_heap(heap_.begin(), heap_.end());
    const HeapEntry top = heap_.back();
    heap_.pop_back();
    const Line& line = lines_[top.line];
    if (line.version != top.version) continue;
    if (++steps_ % kAsk == 0 && stopped_ && stopped_()) return false;
    const Rank place = best_on(line);
    if (place == FitIndex::kNone) {
      lift(top.line);
      continue;
    }
    const BlockId block = preference[place];
    put(top.line, block);
    index_.remove(block);
    --left;
  }
  return true;
}

Rank SkylinePacker::best_on(const Line& line) const {
  if (line.width == length_) return index_.best_within(0, 2 * length_);  // the whole circle
  const Rank end = line.begin + line.width;
  const Rank before = index_.best_within(line.begin, end);
  if (end <= length_) return before;
  return std::min(before, index_.best_within(0, end - length_));
}

// Put the block on the line. The line splits into the parts beside the block and the block's top.
void SkylinePacker::put(std::int32_t index, BlockId block) {
  const Line line = lines_[index];
  offsets_[block] = line.height;
  const Rank width = ring_.end[block] - ring_.begin[block];
  const bool whole = line.width == length_;
  Rank before = ring_.begin[block] - line.begin;
  if (before < 0) before += length_;
  if (whole) before = 0;  // a line around the whole circle may be split anywhere
  const Rank after = line.width - before - width;

  std::int32_t left = before > 0 ? index : line.left;
  std::int32_t middle = before > 0 ? add() : index;
  std::int32_t right = line.right;
  if (after > 0) right = add();
  if (whole) left = right = after > 0 ? right : middle;

  if (before > 0) set(index, line.begin, before, line.height, line.left);
  set(middle, ring_.begin[block], width, line.height + ring_.size[block], left);
  if (after > 0) {
    set(right, wrap(ring_.begin[block] + width), after, line.height, middle);
    link(right, whole ? middle : line.right);
  }
  link(middle, right);
  if (before > 0) push(index);
  if (after > 0) push(right);
  push(middle);
  merge_equal(middle);
}

// Lift a line to the height of its lower neighbour, because no unplaced block fits on the line.
void SkylinePacker::lift(std::int32_t index) {
  Line& line = lines_[index];
  line.height = std::min(lines_[line.left].height, lines_[line.right].height);
  merge_equal(index);
}

// Join the line with neighbours of equal height.
void SkylinePacker::merge_equal(std::int32_t index) {
  bool merged = false;
  for (std::int32_t left = lines_[index].left;
       left != index && lines_[left].height == lines_[index].height; left = lines_[index].left) {
    lines_[index].begin = lines_[left].begin;
    absorb(index, left);
    link(lines_[left].left, index);
    merged = true;
  }
  for (std::int32_t right = lines_[index].right;
       right != index && lines_[right].height == lines_[index].height;
       right = lines_[index].right) {
    absorb(index, right);
    link(index, lines_[right].right);
    merged = true;
  }
  if (merged) push(index);
}

void SkylinePacker::absorb(std::int32_t index, std::int32_t gone) {
  lines_[index].width += lines_[gone].width;
  ++lines_[gone].version;
  free_.push_back(gone);
}

std::int32_t SkylinePacker::add() {
  if (free_.empty()) {
    lines_.push_back({});
    return static_cast<std::int32_t>(lines_.size()) - 1;
  }
  const std::int32_t index = free_.back();
  free_.pop_back();
  return index;
}

void SkylinePacker::set(std::int32_t index, Rank begin, Rank width, Offset height,
                        std::int32_t left) {
  Line& line = lines_[index];
  line.begin = begin;
  line.width = width;
  line.height = height;
  link(left, index);
}

void SkylinePacker::link(std::int32_t left, std::int32_t right) {
  lines_[left].right = right;
  lines_[right].left = left;
}

void SkylinePacker::push(std::int32_t index) {
  Line& line = lines_[index];
  ++line.version;
  heap_.push_back({line.height, line.begin, index, line.version});
  std::push_heap(heap_.begin(), heap_.end());
}

}  // namespace pgmo::packing

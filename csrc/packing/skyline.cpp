#include "packing/skyline.hpp"

#include <queue>
#include <tuple>

#include "packing/fit_index.hpp"

namespace pgmo::packing {
namespace {

constexpr Offset kEndless = std::numeric_limits<Offset>::max();

struct Line {
  Rank begin, width;
  Offset height;
  std::int32_t left, right;
  std::int32_t version;  // tells heap entries that speak of an earlier state of the line
};

struct HeapEntry {
  Offset height;
  Rank begin;
  std::int32_t line, version;
  bool operator<(const HeapEntry& other) const {  // the std heap has the largest on top
    return std::tie(other.height, other.begin) < std::tie(height, begin);
  }
};

class Skyline {
 public:
  Skyline(const Ring& ring, const std::vector<BlockId>& preference)
      : ring_(ring),
        preference_(preference),
        index_(ring, preference),
        // The wall takes one rank of its own.
        length_(ring.ranks + (ring.circular ? 0 : 1)),
        offsets_(ring.blocks(), kUnplanned) {
    if (ring.circular) {
      lines_.push_back({0, length_, 0, 0, 0, 0});
    } else {
      lines_.push_back({0, ring.ranks, 0, 1, 1, 0});
      lines_.push_back({ring.ranks, 1, kEndless, 0, 0, 0});
    }
    push(0);
  }

  Offsets fill() {
    while (!index_.empty()) {
      const HeapEntry top = heap_.top();
      heap_.pop();
      if (lines_[top.line].version != top.version) continue;
      const Rank place = best_on(lines_[top.line]);
      if (place == FitIndex::kNone) {
        lift(top.line);
      } else {
        put(top.line, preference_[place]);
        index_.remove(place);
      }
    }
    return std::move(offsets_);
  }

 private:
  Rank best_on(const Line& line) const {
    if (line.width == length_) return index_.best_within(0, 2 * length_);  // the whole circle
    const Rank end = line.begin + line.width;
    const Rank before = index_.best_within(line.begin, end);
    if (end <= length_) return before;
    return std::min(before, index_.best_within(0, end - length_));
  }

  // Puts the block on the line and cuts the line into what is left of it, it, and what is right.
  void put(std::int32_t index, BlockId block) {
    const Line line = lines_[index];
    offsets_[block] = line.height;
    const Rank width = ring_.end[block] - ring_.begin[block];
    const bool whole = line.width == length_;
    Rank before = ring_.begin[block] - line.begin;
    if (before < 0) before += length_;
    if (whole) before = 0;  // a line around the whole circle may be cut anywhere
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

  // No unplaced block fits the line: raises it to the lower of its neighbours.
  void lift(std::int32_t index) {
    Line& line = lines_[index];
    line.height = std::min(lines_[line.left].height, lines_[line.right].height);
    merge_equal(index);
  }

  // Joins the line with neighbours of its height.
  void merge_equal(std::int32_t index) {
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

  void absorb(std::int32_t index, std::int32_t gone) {
    lines_[index].width += lines_[gone].width;
    ++lines_[gone].version;
    free_.push_back(gone);
  }

  std::int32_t add() {
    if (free_.empty()) {
      lines_.push_back({});
      return static_cast<std::int32_t>(lines_.size()) - 1;
    }
    const std::int32_t index = free_.back();
    free_.pop_back();
    return index;
  }

  void set(std::int32_t index, Rank begin, Rank width, Offset height, std::int32_t left) {
    Line& line = lines_[index];
    line.begin = begin;
    line.width = width;
    line.height = height;
    link(left, index);
  }

  void link(std::int32_t left, std::int32_t right) {
    lines_[left].right = right;
    lines_[right].left = left;
  }

  void push(std::int32_t index) {
    Line& line = lines_[index];
    ++line.version;
    heap_.push({line.height, line.begin, index, line.version});
  }

  Rank wrap(Rank rank) const { return rank >= length_ ? rank - length_ : rank; }

  const Ring& ring_;
  const std::vector<BlockId>& preference_;
  FitIndex index_;
  Rank length_;
  Offsets offsets_;
  std::vector<Line> lines_;
  std::vector<std::int32_t> free_;
  std::priority_queue<HeapEntry> heap_;
};

}  // namespace

Offsets fill_skyline(const Ring& ring, const std::vector<BlockId>& preference) {
  return ring.blocks() == 0 ? Offsets{} : Skyline(ring, preference).fill();
}

}  // namespace pgmo::packing

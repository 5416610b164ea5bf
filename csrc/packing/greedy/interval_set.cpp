#include "packing/greedy/interval_set.hpp"

#include <algorithm>

namespace pgmo::packing {

bool IntervalSet::add(Offset begin, Offset end) {
  if (end <= solid_) return false;
  top_ = std::max(top_, end);
  if (begin > solid_) return add_above(begin, end);
  rise(end);
  return true;
}

// Makes everything below `end` solid, and what that comes to touch.
void IntervalSet::rise(Offset end) {
  solid_ = end;
  std::size_t gone = 0;
  for (; gone < chunks_.size() && chunks_[gone].end <= solid_; ++gone) {
  }
  if (gone < chunks_.size()) {
    std::vector<Interval>& own = chunks_[gone].intervals;
    std::size_t k = 0;
    for (; k < own.size() && own[k].begin <= solid_; ++k) solid_ = std::max(solid_, own[k].end);
    if (k == own.size()) {
      ++gone;  // what ends this chunk does not touch the next one
    } else {
      own.erase(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }
  if (gone > 0) chunks_.erase(chunks_.begin(), chunks_.begin() + static_cast<std::ptrdiff_t>(gone));
}

bool IntervalSet::add_above(Offset begin, Offset end) {
  // The first interval that ends at or above `begin`: the only one that may be joined from below.
  const auto chunk = begin > top_
                         ? chunks_.end()
                         : std::partition_point(chunks_.begin(), chunks_.end(),
                                                [&](const Chunk& c) { return c.end < begin; });
  if (chunk == chunks_.end()) {
    if (chunks_.empty()) {
      widest_gap_ = begin - solid_;
      chunks_.push_back({{{begin, end}}, end, widest_gap_});
    } else {
      insert(chunks_.size() - 1, chunks_.back().intervals.size(), {begin, end});
    }
    return true;
  }
  const auto interval = std::partition_point(chunk->intervals.begin(), chunk->intervals.end(),
                                             [&](const Interval& i) { return i.end < begin; });
  const std::size_t c = static_cast<std::size_t>(chunk - chunks_.begin());
  const std::size_t i = static_cast<std::size_t>(interval - chunk->intervals.begin());
  if (interval->begin <= begin && end <= interval->end) return false;
  if (interval->begin <= end) {
    swallow(c, i, {begin, end});
  } else {
    insert(c, i, {begin, end});
  }
  return true;
}

void IntervalSet::insert(std::size_t c, std::size_t i, Interval interval) {
  Chunk& chunk = chunks_[c];
  const Offset below = i > 0 ? chunk.intervals[i - 1].end : c > 0 ? chunks_[c - 1].end : solid_;
  chunk.widest_gap = std::max(chunk.widest_gap, interval.begin - below);
  widest_gap_ = std::max(widest_gap_, chunk.widest_gap);
  chunk.intervals.insert(chunk.intervals.begin() + static_cast<std::ptrdiff_t>(i), interval);
  chunk.end = chunk.intervals.back().end;
  if (chunk.intervals.size() < kFull) return;
  const auto middle = chunk.intervals.begin() + kFull / 2;
  Chunk upper{{middle, chunk.intervals.end()}, chunk.end, chunk.widest_gap};
  chunk.intervals.erase(middle, chunk.intervals.end());
  chunk.end = chunk.intervals.back().end;
  chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(c) + 1, std::move(upper));
}

// Joins the interval with the one at (c, i), which it touches, and with all that it touches above.
void IntervalSet::swallow(std::size_t c, std::size_t i, Interval interval) {
  std::vector<Interval>& own = chunks_[c].intervals;
  interval.begin = std::min(interval.begin, own[i].begin);
  std::size_t next = i;
  for (; next < own.size() && own[next].begin <= interval.end; ++next) {
    interval.end = std::max(interval.end, own[next].end);
  }
  const bool to_the_end = next == own.size();
  own[i] = interval;
  own.erase(own.begin() + static_cast<std::ptrdiff_t>(i) + 1,
            own.begin() + static_cast<std::ptrdiff_t>(next));
  if (to_the_end) {
    std::size_t gone = c + 1;
    for (; gone < chunks_.size(); ++gone) {
      std::vector<Interval>& upper = chunks_[gone].intervals;
      std::size_t k = 0;
      for (; k < upper.size() && upper[k].begin <= interval.end; ++k) {
        interval.end = std::max(interval.end, upper[k].end);
      }
      if (k < upper.size()) {
        upper.erase(upper.begin(), upper.begin() + static_cast<std::ptrdiff_t>(k));
        break;
      }
    }
    own[i].end = interval.end;
    chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(c) + 1,
                  chunks_.begin() + static_cast<std::ptrdiff_t>(gone));
  }
  chunks_[c].end = chunks_[c].intervals.back().end;
}

void IntervalSet::add(const IntervalSet& other) {
  if (empty()) {
    *this = other;
    return;
  }
  if (other.solid_ > 0) add(0, other.solid_);
  if (other.count() < count() / 8 + 2) {
    for (const Chunk& chunk : other.chunks_) {
      for (const Interval& interval : chunk.intervals) add(interval.begin, interval.end);
    }
    return;
  }
  std::vector<Interval> sorted, joined{{0, solid_}};  // so that what touches it joins it
  for (const IntervalSet* set : {static_cast<const IntervalSet*>(this), &other}) {
    const auto half = static_cast<std::ptrdiff_t>(sorted.size());
    for (const Chunk& chunk : set->chunks_) {
      sorted.insert(sorted.end(), chunk.intervals.begin(), chunk.intervals.end());
    }
    std::inplace_merge(sorted.begin(), sorted.begin() + half, sorted.end(),
                       [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  }
  for (const Interval& interval : sorted) {
    if (interval.begin <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, interval.end);
    } else {
      joined.push_back(interval);
    }
  }
  solid_ = joined.front().end;
  top_ = joined.back().end;
  joined.erase(joined.begin());
  assign(joined);
}

void IntervalSet::assign(const std::vector<Interval>& intervals) {
  chunks_.clear();
  widest_gap_ = 0;
  Offset below = solid_;
  for (std::size_t first = 0; first < intervals.size(); first += kFull * 3 / 4) {
    const std::size_t last = std::min(first + kFull * 3 / 4, intervals.size());
    Chunk chunk{{intervals.begin() + static_cast<std::ptrdiff_t>(first),
                 intervals.begin() + static_cast<std::ptrdiff_t>(last)},
                intervals[last - 1].end,
                0};
    for (const Interval& interval : chunk.intervals) {
      chunk.widest_gap = std::max(chunk.widest_gap, interval.begin - below);
      below = interval.end;
    }
    widest_gap_ = std::max(widest_gap_, chunk.widest_gap);
    chunks_.push_back(std::move(chunk));
  }
}

std::size_t IntervalSet::count() const {
  std::size_t sum = 0;
  for (const Chunk& chunk : chunks_) sum += chunk.intervals.size();
  return sum;
}

Offset IntervalSet::search(Offset at, Bytes size, Cursor& cursor) const {
  const std::size_t chunks = chunks_.size();
  const bool from_bottom = at <= solid_;
  Bytes widest_of_all = 0;
  at = std::max(at, solid_);
  if (cursor.chunk < chunks && chunks_[cursor.chunk].end <= at) {
    const auto chunk = std::partition_point(chunks_.begin() + cursor.chunk, chunks_.end(),
                                            [&](const Chunk& c) { return c.end <= at; });
    cursor = {static_cast<std::uint32_t>(chunk - chunks_.begin()), 0};
  }
  if (cursor.chunk == chunks) return at;
  {
    const std::vector<Interval>& own = chunks_[cursor.chunk].intervals;
    const auto interval = std::partition_point(own.begin() + cursor.index, own.end(),
                                               [&](const Interval& i) { return i.end <= at; });
    cursor.index = static_cast<std::uint32_t>(interval - own.begin());
  }
  for (; cursor.chunk < chunks; cursor = {cursor.chunk + 1, 0}) {
    const Chunk& chunk = chunks_[cursor.chunk];
    const bool from_below = cursor.index == 0;
    if (from_below && chunk.widest_gap < size) {
      at = std::max(at, chunk.end);
      widest_of_all = std::max(widest_of_all, chunk.widest_gap);
      continue;
    }
    Bytes widest = 0;
    Offset below = cursor.chunk > 0 ? chunks_[cursor.chunk - 1].end : solid_;
    for (; cursor.index < chunk.intervals.size(); ++cursor.index) {
      const Interval& interval = chunk.intervals[cursor.index];
      if (at + size <= interval.begin) return at;
      at = std::max(at, interval.end);
      widest = std::max(widest, interval.begin - below);
      below = interval.end;
    }
    if (from_below) chunk.widest_gap = widest;
    widest_of_all = std::max(widest_of_all, widest);
  }
  if (from_bottom) widest_gap_ = widest_of_all;
  return at;
}

}  // namespace pgmo::packing

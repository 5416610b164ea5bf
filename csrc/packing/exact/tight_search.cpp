#include "packing/exact/tight_search.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace pgmo::packing {
namespace {

constexpr std::uint64_t kAsk = 256;  // nodes between looks at the clock
constexpr double kBlame = 0.1;       // of a section, each time
constexpr BlockId kHole = -1;
constexpr Offset kNever = std::numeric_limits<Offset>::max();
constexpr std::size_t kStates = 500'000;  // remembered

std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::uint64_t mix(Rank section, Offset floor) {
  return mix(mix(static_cast<std::uint64_t>(section)) ^ static_cast<std::uint64_t>(floor));
}

}  // namespace

TightSearch::TightSearch(const Window& window, Bytes capacity)
    : window_(window), capacity_(capacity), alive_(window.sections), weight_(window.sections, 1) {
  std::map<std::tuple<Rank, Rank, Bytes>, std::uint64_t> kinds;
  for (BlockId i = 0; i < window.blocks(); ++i) {
    each_section(window.begin[i], window.end[i], [&](Rank s) { alive_[s].push_back(i); });
    const std::tuple kind(window.begin[i], window.end[i], window.size[i]);
    ring_ |= window.end[i] > window.sections;
    kind_.push_back(kinds.emplace(kind, mix(kinds.size())).first->second);
  }
  begin_at_.resize(window.sections);
  for (BlockId i = 0; i < window.blocks(); ++i) begin_at_[window.begin[i]].push_back(i);
  turn_.resize(window.blocks());
}

template <typename Visit>
void TightSearch::each_section(Rank begin, Rank end, Visit visit) const {
  for (Rank s = begin; s < std::min(end, window_.sections); ++s) visit(s);
  for (Rank s = 0; s < end - window_.sections; ++s) visit(s);
}

void TightSearch::reset() {
  state_ = State::kOpen;
  const auto blocks = static_cast<std::size_t>(window_.blocks());
  floor_.assign(window_.sections, 0);
  remaining_.assign(window_.sections, 0);
  candidates_.assign(window_.sections, 0);
  kept_.assign(window_.sections, 0);
  covered_.assign(window_.sections, 0);
  top_.assign(blocks, 0);
  placed_.assign(blocks, 0);
  open_.assign(blocks, true);
  left_ = blocks;
  set_ = floors_ = 0;
  mark_ = 0;
  for (BlockId i = 0; i < window_.blocks(); ++i) {
    each_section(window_.begin[i], window_.end[i],
                 [&](Rank s) { remaining_[s] += window_.size[i]; });
    set_ += kind_[i];
  }
  for (Rank s = 0; s < window_.sections; ++s) {
    candidates_[s] = static_cast<std::int32_t>(alive_[s].size());
    floors_ += mix(s, 0);
  }
  levels_.clear();
  choices_.clear();
  path_.clear();
  raised_.clear();
  changed_.clear();
}

void TightSearch::keep(Rank section) {
  if (kept_[section] == mark_) return;
  kept_[section] = mark_;
  changed_.push_back({section, floor_[section], remaining_[section], candidates_[section]});
}

// Makes a choice: a block that lies on the floor of the level's section, or a hole there. False if
// some section cannot be filled then.
bool TightSearch::make(BlockId choice, const Level& level) {
  ++mark_;
  path_.push_back(choice);
  Rank dead = -1;
  if (choice == kHole) {
    lift(level.section, level.section + 1, level.hole, 0, dead);
  } else {
    open_[choice] = false;
    --left_;
    set_ -= kind_[choice];
    placed_[choice] = top_[choice];
    lift(window_.begin[choice], window_.end[choice], top_[choice] + window_.size[choice],
         window_.size[choice], dead);
  }
  if (dead >= 0) weight_[dead] += kBlame;
  return dead < 0;
}

// Raises the floor of sections to `top`, where `size` bytes of it are a block.
void TightSearch::lift(Rank begin, Rank end, Offset top, Bytes size, Rank& dead) {
  if (top > capacity_) dead = begin;
  each_section(begin, end, [&](Rank s) {
    keep(s);
    covered_[s] = mark_;
    floors_ += mix(s, remaining_[s] == size ? 0 : top) - mix(s, floor_[s]);
    floor_[s] = top;
    remaining_[s] -= size;
    if (remaining_[s] > capacity_ - top) dead = s;
  });
  if (dead >= 0) return;
  // What lies above is no candidate any more where it cannot wait for so long.
  each_section(begin, end, [&](Rank s) {
    for (const BlockId other : alive_[s]) {
      if (!open_[other] || top_[other] >= top) continue;
      raised_.push_back({other, top_[other]});
      const Offset before = top_[other];
      top_[other] = top;
      if (top + window_.size[other] > capacity_) dead = s;
      each_section(window_.begin[other], window_.end[other], [&](Rank t) {
        if (covered_[t] == mark_) return;  // counted below
        const Bytes room = capacity_ - remaining_[t];
        if (before <= room && top > room) {
          keep(t);
          if (--candidates_[t] == 0) dead = t;
        }
      });
    }
  });
  each_section(begin, end, [&](Rank s) {
    std::int32_t count = 0;
    for (const BlockId other : alive_[s]) count += open_[other] && next_there(other, s);
    candidates_[s] = count;
    if (count == 0 && remaining_[s] > 0) dead = s;
  });
}

void TightSearch::undo(const Level& level) {
  while (raised_.size() > level.raised) {
    top_[raised_.back().block] = raised_.back().top;
    raised_.pop_back();
  }
  while (changed_.size() > level.changed) {
    const Changed& was = changed_.back();
    floors_ += mix(was.section, was.floor) -
               mix(was.section, remaining_[was.section] == 0 ? 0 : floor_[was.section]);
    floor_[was.section] = was.floor;
    remaining_[was.section] = was.remaining;
    candidates_[was.section] = was.candidates;
    changed_.pop_back();
  }
  const BlockId block = path_.back();
  path_.pop_back();
  if (block == kHole) return;
  open_[block] = true;
  ++left_;
  set_ += kind_[block];
}

std::uint64_t TightSearch::state() const {
  return mix(set_) ^ floors_;
}

// Whether blocks can lie side by side on the floor of sections [begin, begin + length), from wall
// to wall, with holes where a section has room for them; `from_` and `to_` say how far it is
// possible from either wall. Both hold positions relative to `begin`.
bool TightSearch::row(Rank begin, Rank length) {
  const Offset floor = floor_[begin];
  from_.assign(length + 1, false);
  to_.assign(length + 1, false);
  from_[0] = to_[length] = true;
  const auto each_edge = [&](Rank at, auto visit) {
    const Rank s = (begin + at) % window_.sections;
    if (!full(s)) visit(at + 1);
    for (const BlockId i : begin_at_[s]) {
      const Rank end = at + window_.end[i] - window_.begin[i];
      if (open_[i] && top_[i] == floor && end <= length) visit(end);
    }
  };
  for (Rank at = 0; at < length; ++at) {
    if (from_[at]) each_edge(at, [&](Rank end) { from_[end] = true; });
  }
  if (!from_[length]) return false;
  for (Rank at = length - 1; at >= 0; --at) {
    each_edge(at, [&](Rank end) { to_[at] = to_[at] || to_[end]; });
  }
  return true;
}

// Opens a level for the section that is hardest to fill. False if this state is known to fail.
bool TightSearch::descend() {
  const std::uint64_t now = state();
  if (failed_.contains(now)) return false;
  const Rank sections = window_.sections;
  const auto height = [&](Rank s) { return remaining_[s] == 0 ? kNever : floor_[s]; };
  // Only between walls: whatever lies on such a floor has no hole below it. On a ring the first
  // valley begins where the height changes.
  Rank start = 0;
  bool even = false;
  if (ring_) {
    while (start < sections && height(start) == height((start + sections - 1) % sections)) ++start;
    even = start == sections;
    if (even) start = 0;
  }
  Rank section = -1, valley = 0, valley_length = 0;
  double least = std::numeric_limits<double>::max();
  for (Rank at = 0; at < sections;) {
    const Rank begin = (start + at) % sections;
    Rank length = 1;
    while (at + length < sections && height((begin + length) % sections) == height(begin)) ++length;
    const Offset left =
        at == 0 && (!ring_ || even) ? kNever : height((begin + sections - 1) % sections);
    const Offset right =
        at + length == sections && (!ring_ || even) ? kNever : height((begin + length) % sections);
    at += length;
    if (height(begin) == kNever || left < height(begin) || right < height(begin)) continue;
    if (!even && !row(begin, length)) {
      weight_[begin] += kBlame;
      return false;
    }
    ways_.assign(length + 1, 0);
    for (Rank k = 0; k < length; ++k) {
      const Rank s = (begin + k) % sections;
      if (!even && !from_[k]) continue;
      for (const BlockId i : begin_at_[s]) {
        const Rank end = k + window_.end[i] - window_.begin[i];
        if (!open_[i] || top_[i] != floor_[s]) continue;
        if (even) {
          ++ways_[k], --ways_[std::min(end, length)];
          if (end > length) ++ways_[0], --ways_[end - length];
        } else if (end <= length && to_[end]) {
          ++ways_[k], --ways_[end];
        }
      }
    }
    std::int32_t ways = 0;
    for (Rank k = 0; k < length; ++k) {
      const Rank s = (begin + k) % sections;
      ways += ways_[k];
      const std::int32_t all = ways + !full(s);
      const double hardness = all <= 1 ? all : all / weight_[s];
      if (hardness < least) least = hardness, section = s, valley = begin, valley_length = length;
    }
  }
  const std::size_t first = choices_.size();
  const Offset floor = floor_[section];
  if (!even) row(valley, valley_length);
  for (const BlockId i : alive_[section]) {
    if (!open_[i] || top_[i] > floor) continue;
    if (!even) {
      Rank at = window_.begin[i] - valley;
      if (at < 0) at += sections;
      const Rank end = at + window_.end[i] - window_.begin[i];
      if (end > valley_length || !from_[at] || !to_[end]) continue;
    }
    const bool known = std::any_of(choices_.begin() + static_cast<std::ptrdiff_t>(first),
                                   choices_.end(), [&](BlockId j) { return kind_[i] == kind_[j]; });
    if (!known) choices_.push_back(i);
  }
  std::sort(choices_.begin() + static_cast<std::ptrdiff_t>(first), choices_.end(),
            [&](BlockId a, BlockId b) { return turn_[a] < turn_[b]; });
  const Offset hole = full(section) ? kNever : top_of_hole(section, valley, valley_length);
  if (hole <= capacity_ - remaining_[section]) choices_.push_back(kHole);
  levels_.push_back({section, hole, now, first, choices_.size(), raised_.size(), changed_.size()});
  return true;
}

// What lies above a hole has its support on a wall or on what is still to come in the valley.
Offset TightSearch::top_of_hole(Rank section, Rank valley, Rank length) const {
  const Rank sections = window_.sections;
  const Offset floor = floor_[section];
  Offset top = kNever;
  for (Rank k = -1; k <= length; ++k) {
    const Rank s = (valley + k + sections) % sections;
    if (k < 0 || k == length) {
      if (remaining_[s] > 0 && floor_[s] > floor) top = std::min(top, floor_[s]);
      continue;
    }
    for (const BlockId i : alive_[s]) {
      if (open_[i] && top_[i] == floor) top = std::min(top, floor + window_.size[i]);
    }
  }
  for (const BlockId i : alive_[section]) {
    if (open_[i] && top_[i] > floor) top = std::min(top, top_[i]);
  }
  return top;
}

void TightSearch::start(const std::vector<BlockId>& order) {
  for (std::size_t i = 0; i < order.size(); ++i) turn_[order[i]] = static_cast<std::int32_t>(i);
  reset();
  if (!descend()) state_ = State::kExhausted;
}

TightSearch::State TightSearch::run(std::uint64_t nodes, const std::function<bool()>& stopped) {
  const std::uint64_t end = nodes_ + nodes;
  while (state_ == State::kOpen && nodes_ < end) {
    Level& level = levels_.back();
    if (path_.size() == levels_.size()) undo(level);  // its last choice has failed
    if (level.next == level.end) {
      if (failed_.size() < kStates) failed_.insert(level.state);
      levels_.pop_back();
      if (levels_.empty()) {
        state_ = State::kExhausted;
      } else {
        choices_.resize(levels_.back().end);
      }
      continue;
    }
    if (++nodes_ % kAsk == 0 && stopped()) break;
    if (!make(choices_[level.next++], level)) continue;
    if (left_ == 0) {
      state_ = State::kFound;
    } else {
      descend();
    }
  }
  return state_;
}

}  // namespace pgmo::packing

// Which request of the plan one is that is not the one under the cursor.

#include <algorithm>
#include <bit>

#include "checks.hpp"
#include "engine/replay/replayer.hpp"

namespace pgmo {

Replayer::Match Replayer::resynchronise(RequestKey key) {
  leave_small_change(key);
  const bool varies = sizes_.varies_for(cursor_, key);
  if (varies &&
      (sizes_.is_known(cursor_, key) || (sizes_.is_open(cursor_) && sizes_.alike(cursor_, key)))) {
    return take(cursor_, key);
  }
  if (const SlotIndex request = find_skipped(key); request != kNoSlot) return {request};
  // Where it may as well be the next one, of which nothing is known yet, only few were left out.
  const bool open = varies && sizes_.is_open(cursor_);
  const SlotIndex window = open ? tuning::kOpenWindow : tuning::kNearWindow;
  if (const SlotIndex request = find_known(key, window); request != kNoSlot) {
    return take(request, key);
  }
  if (const SlotIndex request = find_alike(key, window); request != kNoSlot) {
    return take(request, key);
  }
  if (jumps_.is_wrong(counters_)) return expected_again(key);
  if (const SlotIndex request = find_far(key); request != kNoSlot) {
    const FarJumps::Origin origin{cursor_, now_, end_};
    const Match match = advance_to(request);
    jumps_.jumped(origin, counters_);
    ++counters_.jumps;
    return match;
  }
  if (const SlotIndex request = find_behind(key); request != kNoSlot) {
    go_back(before(request));
    jumps_.settle();
    ++counters_.repeats;
    return take(request, key);
  }
  // A gradient's size, say, tells of no other length as long as nothing else does.
  const bool unknown = varies && sizes_.is_open(cursor_);
  if (unknown && !sizes_.plausible(cursor_, key)) return {kNoSlot, Miss::kUnknown};
  if (varies && (unknown || sizes_.alike(cursor_, key))) return take(cursor_, key);
  if (!varies) {
    const SlotIndex request = find_open(key);
    return request == kNoSlot ? Match{kNoSlot, Miss::kUnknown} : take(request, key);
  }
  if (!sizes_.plausible(cursor_, key)) return {kNoSlot, Miss::kUnknown};
  // By its place alone: sizes of small change depend on samples, not on the length of all.
  if (!plan_.landmark(cursor_)) return take(cursor_, key);
  if (!sizes_.contradicted()) return {kNoSlot, Miss::kUnknown};
  sizes_.forget();  // a micro-batch of another length has begun
  return take(behind_missed(key), key);
}

// Takes back jumps that have proved wrong.
Replayer::Match Replayer::expected_again(RequestKey key) {
  go_back(jumps_.origin());
  jumps_.taken_back();
  ++counters_.returns;
  if (plan_.slot(cursor_).key == key) return take(cursor_, key);
  return resynchronise(key);  // with nothing in doubt
}

// A tensor that comes amid small change tells that this is over: there may be more of it in one
// iteration than in another, as where each sample of a batch is a tensor first.
void Replayer::leave_small_change(RequestKey key) {
  if (!plan_.is_large(key_bytes(key)) || cursor_ >= plan_.requests()) return;
  const SlotIndex until = std::min(plan_.requests(), cursor_ + tuning::kSmallWindow);
  SlotIndex next = cursor_;
  while (next < until && !plan_.landmark(next)) ++next;
  if (next == cursor_ || next == until || sizes_.may_have_grown(cursor_, key)) return;
  if (plan_.slot(next).key != key && !(sizes_.varies_for(next, key) && sizes_.plausible(next, key)))
    return;
  advance_to(next);
  cursor_ = next;
}

// The request that contradicted first has had no slot, but it was the one under the cursor.
SlotIndex Replayer::behind_missed(RequestKey key) noexcept {
  const SlotIndex next = cursor_ + 1;
  if (missed_count_ == 0 || next >= plan_.requests()) return cursor_;
  const RequestKey missed = missed_.front();
  if (!fits(cursor_, missed) || !sizes_.plausible(cursor_, missed)) return cursor_;
  if (!fits(next, key) || !sizes_.plausible(next, key)) return cursor_;
  sizes_.note(cursor_, missed);
  return next;
}

// It is this request; whether there is room for it is another question.
Replayer::Match Replayer::take(SlotIndex request, RequestKey key) {
  if (plan_.varying(request)) sizes_.note(request, key);
  if (!fits(request, key)) return too_large(request, key);
  return advance_to(request);
}

// The right request at a size beyond the plan's.
Replayer::Match Replayer::too_large(SlotIndex request, RequestKey key) {
  if (grown_.size() < tuning::kMostGrown) grown_.push_back({request, key_bytes(key)});
  advance_to(request);
  // Small change says nothing of the others.
  const bool tells = plan_.landmark(request);
  outgrown_ = outgrown_ || tells;
  too_large_ = tells ? request : kNoSlot;
  return {kNoSlot, Miss::kTooLarge};
}

// Skipped requests whose planned lifetime still contains `now` may be served after all.
SlotIndex Replayer::find_skipped(RequestKey key) {
  for (std::size_t at = 0; at < skipped_count_; ++at) {
    const SlotIndex request = skipped_[at];
    if (!sizes_.is_known(request, key) || !fits(request, key) || plan_.end_of(request) <= now_)
      continue;
    std::copy(skipped_.begin() + at + 1, skipped_.begin() + skipped_count_, skipped_.begin() + at);
    --skipped_count_;
    return request;
  }
  return kNoSlot;
}

SlotIndex Replayer::find_known(RequestKey key, SlotIndex window) const noexcept {
  const SlotIndex until = std::min(plan_.requests(), cursor_ + window);
  for (SlotIndex request = cursor_; request < until; ++request) {
    const bool by_chance = plan_.varying(request) && !plan_.landmark(request);
    if (by_chance && request != cursor_) continue;
    if (sizes_.is_known(request, key) && tells(request, tuning::kLeftOut)) return request;
  }
  return kNoSlot;
}

// Whether a request that comes tells that all before the planned one were left out. A number that
// is copied for a log does not, though the plan has such a one among its tensors; but one of these
// may be a workspace that is not always needed.
bool Replayer::tells(SlotIndex request, std::uint32_t left_out) const noexcept {
  if (plan_.landmark(request)) return true;
  const std::uint32_t passed = plan_.landmarks_within(cursor_, request);
  return passed == 0 || (passed <= left_out && request == cursor_ + passed);
}

SlotIndex Replayer::find_alike(RequestKey key, SlotIndex window) const noexcept {
  const SlotIndex until = std::min(plan_.requests(), cursor_ + window);
  for (SlotIndex request = cursor_; request < until; ++request) {
    if (!sizes_.varies_for(request, key) || !sizes_.is_open(request)) continue;
    if (sizes_.alike(request, key) && tells(request, 0)) return request;
  }
  return kNoSlot;
}

SlotIndex Replayer::find_open(RequestKey key) const noexcept {
  const SlotIndex until = std::min(plan_.requests(), cursor_ + tuning::kOpenWindow);
  for (SlotIndex request = cursor_; request < until; ++request) {
    if (!sizes_.varies_for(request, key) || !sizes_.is_open(request)) continue;
    if (fits(request, key) && sizes_.plausible(request, key) && tells(request, 0)) return request;
  }
  return kNoSlot;
}

SlotIndex Replayer::find_far(RequestKey key) const noexcept {
  const std::uint64_t until = std::uint64_t{cursor_} + tuning::kFarWindow;
  SlotIndex from = cursor_;
  for (int candidates = 0; candidates < tuning::kMostCandidates; ++candidates) {
    const auto found = plan_.next_exact(key, from);
    if (!found || *found >= until) break;
    if (follows_missed(*found) && (tells(*found, 0) || plan_.landmark(*found - 1))) return *found;
    from = *found + 1;
  }
  return kNoSlot;
}

// A part of the program may come once more, as a forward pass does for each picture of a log. All
// that has been missed in a row has to be there, one after the other.
SlotIndex Replayer::find_behind(RequestKey key) const noexcept {
  const std::size_t came = missed_count_ + 1;
  if (came < tuning::kRepeated || !std::has_single_bit(came)) return kNoSlot;
  const auto is_here = [this](SlotIndex row, RequestKey one) {
    return plan_.slot(row).key == one || sizes_.is_known(row, one);
  };
  const SlotIndex until = std::min(cursor_, plan_.requests());
  for (SlotIndex last = tuning::kRepeated - 1; last < until; ++last) {
    if (!is_here(last, key)) continue;
    SlotIndex back = 1;
    while (back < tuning::kRepeated && is_here(last - back, missed_[back - 1])) ++back;
    const SlotIndex first = last + 1 - tuning::kRepeated;
    if (back == tuning::kRepeated && 2 * plan_.landmarks_within(first, last + 1) >= back)
      return last;
  }
  return kNoSlot;
}

// Whether the plan has the requests that have just been missed before this one.
bool Replayer::follows_missed(SlotIndex request) const noexcept {
  const std::size_t reasons = jumps_.reasons();
  if (reasons > missed_count_ || reasons > request) return false;
  for (SlotIndex back = 1; back <= reasons; ++back) {
    PGMO_ASSERT(back <= missed_.size());
    if (plan_.slot(request - back).key != missed_[back - 1]) return false;
  }
  return true;
}

}  // namespace pgmo

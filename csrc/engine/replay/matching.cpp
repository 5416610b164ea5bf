// Which request of the plan one is that does not have the key under the cursor.

#include <algorithm>

#include "engine/replay/replayer.hpp"

namespace pgmo {

Replayer::Match Replayer::resynchronise(RequestKey key) {
  if (const SlotIndex request = find_past_smaller(key); request != kNoSlot) {
    return take(request, key);
  }
  if (const SlotIndex request = take_skipped(key); request != kNoSlot) return {request};
  if (missed_ != kNoKey) {
    if (const SlotIndex request = find_second(key); request != kNoSlot) return take(request, key);
  }
  return match_unknown_size(key);
}

// One request may pass over smaller ones: in windows they cost little.
SlotIndex Replayer::find_past_smaller(RequestKey key) const noexcept {
  // Where the next one may have this size for all that is known, only few were left out.
  const bool open = may_vary_to(cursor_, key) && sizes_.is_open(cursor_);
  const SlotIndex until = open ? std::min(plan_.requests(), cursor_ + kLeftOut) : window_end();
  SlotIndex request = cursor_;
  while (request < until && !sizes_.is_known(request, key)) request = plan_.next_as_large(request);
  return request < until ? request : kNoSlot;
}

// Two threads, or two streams, have changed places: a request that was passed over comes now. It is
// served while its planned lifetime contains `now`.
SlotIndex Replayer::take_skipped(RequestKey key) noexcept {
  for (std::size_t at = 0; at < skipped_count_; ++at) {
    const SlotIndex request = skipped_[at];
    if (cursor_ - request > heuristics_.look_ahead || !sizes_.is_known(request, key)) continue;
    if (!fits(request, key) || plan_.end_of(request) <= now_) continue;
    std::copy(skipped_.begin() + at + 1, skipped_.begin() + skipped_count_, skipped_.begin() + at);
    --skipped_count_;
    return request;
  }
  return kNoSlot;
}

// The second of two in a row may pass over larger ones, and an anchor over any number of them.
SlotIndex Replayer::find_second(RequestKey key) noexcept {
  const SlotIndex until = window_end();
  for (SlotIndex request = cursor_ + 1; request < until; ++request) {
    if (!sizes_.is_known(request, key)) continue;
    if (sizes_.is_known(request - 1, missed_)) return request;
    if (request - 1 == cursor_ && may_vary_to(cursor_, missed_)) {
      begin_other_length();
      return request;
    }
  }
  const SlotIndex anchor = plan_.anchor(missed_, key);
  if (anchor == kNoSlot || anchor <= cursor_) return kNoSlot;
  ++counters_.jumps;
  return anchor;
}

// A varying request may have a size that is not known yet. Where another one is known, two in a row
// contradict it.
Replayer::Match Replayer::match_unknown_size(RequestKey key) {
  if (!may_vary_to(cursor_, key)) {
    const SlotIndex open = find_open_past_smaller(key);
    return open == kNoSlot ? Match{kNoSlot, Miss::kUnknown} : take(open, key);
  }
  // What is known of the next one counts more than what may be of this one.
  const SlotIndex next = cursor_ + 1;
  if (next < plan_.requests() && sizes_.is_known(next, key)) return take(next, key);
  if (sizes_.is_open(cursor_)) return take(cursor_, key);
  if (missed_ == kNoKey) return {kNoSlot, Miss::kUnknown};
  if (may_vary_to(cursor_, missed_) && may_vary_to(cursor_ + 1, key)) {
    begin_other_length();
    return take(cursor_ + 1, key);
  }
  sizes_.forget();
  return take(cursor_, key);
}

// Requests that are left out, as a number that is logged in some iterations only, stand in the way
// of the next varying one, whose size nobody knows yet.
SlotIndex Replayer::find_open_past_smaller(RequestKey key) const noexcept {
  const SlotIndex until = std::min(plan_.requests(), cursor_ + kLeftOut);
  for (SlotIndex request = cursor_; request < until; ++request) {
    const Bytes planned = key_bytes(plan_.slot(request).key);
    const bool alike = request == cursor_ || planned <= key_bytes(key) * heuristics_.length_ratio;
    if (alike && may_vary_to(request, key) && sizes_.is_open(request)) return request;
    if (planned >= key_bytes(key)) break;
  }
  return kNoSlot;
}

// A micro-batch of another length begins with the request that was missed.
void Replayer::begin_other_length() noexcept {
  sizes_.forget();
  sizes_.note(cursor_, missed_);
}

SlotIndex Replayer::window_end() const noexcept {
  return std::min(plan_.requests(), cursor_ + heuristics_.look_ahead);
}

// Whether a request may be this varying one at a size that is not known: what grows with the square
// of a length shrinks by the square of the ratio of lengths.
bool Replayer::may_vary_to(SlotIndex request, RequestKey key) const noexcept {
  if (request >= plan_.requests() || !plan_.varying(request)) return false;
  const RequestKey own = plan_.slot(request).key;
  if (key_stream(own) != key_stream(key)) return false;
  const Bytes planned = key_bytes(own);
  const Bytes bytes = key_bytes(key);
  const Bytes ratio = heuristics_.length_ratio;
  return bytes >= planned / (ratio * ratio) && bytes <= planned * ratio;
}

// It is this request; whether there is room for it is another question.
Replayer::Match Replayer::take(SlotIndex request, RequestKey key) {
  if (plan_.varying(request)) sizes_.note(request, key);
  if (fits(request, key)) return advance_to(request);
  if (grown_.size() < kMostGrown) grown_.push_back({request, key_bytes(key)});
  advance_to(request);
  outgrown_ = true;
  return {kNoSlot, Miss::kTooLarge};
}

}  // namespace pgmo

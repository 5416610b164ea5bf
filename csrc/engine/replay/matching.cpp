// Finds the request of the plan that matches a key, if the request under the cursor does not. The
// candidates and their order are in replayer.hpp.

#include <algorithm>

#include "engine/replay/replayer.hpp"

namespace pgmo {

Replayer::Match Replayer::resynchronise(RequestKey key) {
  if (const SlotIndex request = find_past_smaller(key); request != kNoSlot) {
    return match_at(request, key);
  }
  if (const SlotIndex request = take_skipped(key); request != kNoSlot) return {request};
  if (missed_ != kNoKey) {
    if (const SlotIndex request = find_pair(key); request != kNoSlot) return match_at(request, key);
  }
  return match_unknown_size(key);
}

// Return the nearest request ahead that is known to have this key and skips no larger request;
// kNoSlot if there is none. If the skipped requests come later and miss, they need little memory.
SlotIndex Replayer::find_past_smaller(RequestKey key) const noexcept {
  // If the request under the cursor may have this size, search only a few requests ahead.
  const bool open = may_vary_to(cursor_, key) && sizes_.is_open(cursor_);
  const SlotIndex until = open ? std::min(plan_.requests(), cursor_ + kLeftOut) : window_end();
  SlotIndex request = cursor_;
  while (request < until && !sizes_.is_known(request, key)) request = plan_.next_as_large(request);
  return request < until ? request : kNoSlot;
}

// Remove and return a skipped request with this key, because two threads or streams may have
// changed their order. The planned lifetime of the request must contain `now`.
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

// Return the second request of a pair whose first request matches the missed key, and whose second
// matches `key`; kNoSlot if there is none. A pair in the window may also skip larger requests. An
// anchor may skip any number of requests.
SlotIndex Replayer::find_pair(RequestKey key) noexcept {
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

// Match a varying request whose size is not known in this iteration. If a different size is known,
// two requests in a row must contradict it.
Replayer::Match Replayer::match_unknown_size(RequestKey key) {
  if (!may_vary_to(cursor_, key)) {
    const SlotIndex open = find_open_past_smaller(key);
    return open == kNoSlot ? Match{kNoSlot, Miss::kUnknown} : match_at(open, key);
  }
  // A next request that is known to have this size has priority over the one under the cursor.
  const SlotIndex next = cursor_ + 1;
  if (next < plan_.requests() && sizes_.is_known(next, key)) return match_at(next, key);
  if (sizes_.is_open(cursor_)) return match_at(cursor_, key);
  if (missed_ == kNoKey) return {kNoSlot, Miss::kUnknown};
  if (may_vary_to(cursor_, missed_) && may_vary_to(cursor_ + 1, key)) {
    begin_other_length();
    return match_at(cursor_ + 1, key);
  }
  sizes_.forget();
  return match_at(cursor_, key);
}

// Return the next varying request of unknown size that this key may match; kNoSlot if there is
// none. It may skip requests that only some iterations make, such as a logged number.
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

// Forget all sizes: the missed request was the first of a micro-batch of another length.
void Replayer::begin_other_length() noexcept {
  sizes_.forget();
  sizes_.note(cursor_, missed_);
}

SlotIndex Replayer::window_end() const noexcept {
  return std::min(plan_.requests(), cursor_ + heuristics_.look_ahead);
}

// Return whether the key may be this varying request at an unknown size. A size that grows with the
// square of a length shrinks by the square of the length ratio.
bool Replayer::may_vary_to(SlotIndex request, RequestKey key) const noexcept {
  if (request >= plan_.requests() || !plan_.varying(request)) return false;
  const RequestKey own = plan_.slot(request).key;
  if (key_stream(own) != key_stream(key)) return false;
  const Bytes planned = key_bytes(own);
  const Bytes bytes = key_bytes(key);
  const Bytes ratio = heuristics_.length_ratio;
  return bytes >= planned / (ratio * ratio) && bytes <= planned * ratio;
}

// Match the request, and move the cursor past it even if its slot is too small.
Replayer::Match Replayer::match_at(SlotIndex request, RequestKey key) {
  if (plan_.varying(request)) sizes_.note(request, key);
  if (fits(request, key)) return advance_to(request);
  if (grown_.size() < kMostGrown) grown_.push_back({request, key_bytes(key)});
  advance_to(request);
  return {kNoSlot, Miss::kTooLarge};
}

}  // namespace pgmo

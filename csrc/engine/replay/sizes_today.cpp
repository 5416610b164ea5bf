#include "engine/replay/sizes_today.hpp"

#include <algorithm>
#include <cmath>

namespace pgmo {

namespace {

bool close(double own, double other) noexcept {
  return std::abs(own - other) <= tuning::kRatioTolerance * other;
}

}  // namespace

void SizesToday::forget() noexcept {
  std::fill(today_.begin(), today_.end(), 0);
  ratio_count_ = 0;
  contradictions_ = 0;
}

void SizesToday::note_other(SlotIndex request, RequestKey key) noexcept {
  today_[plan_.size_class(request)] = key_bytes(key);
  if (!plan_.landmark(request)) return;  // it may be one sample's, and not the length of all
  if (ratio_count_ < ratios_.size() && !alike(request, key)) {
    ratios_[ratio_count_++] = ratio(request, key);
  }
}

bool SizesToday::contradicted() noexcept {
  return ++contradictions_ >= tuning::kContradictions;
}

bool SizesToday::varies_for(SlotIndex request, RequestKey key) const noexcept {
  return request < plan_.requests() && plan_.varying(request) &&
         key_stream(key) == key_stream(plan_.slot(request).key);
}

bool SizesToday::is_known(SlotIndex request, RequestKey key) const noexcept {
  if (!plan_.varying(request)) return plan_.slot(request).key == key;
  return varies_for(request, key) && today_[plan_.size_class(request)] == key_bytes(key);
}

bool SizesToday::alike(SlotIndex request, RequestKey key) const noexcept {
  const double own = ratio(request, key);
  return std::any_of(ratios_.begin(), ratios_.begin() + static_cast<std::ptrdiff_t>(ratio_count_),
                     [own](double one) { return close(own, one) || close(own, one * one); });
}

bool SizesToday::plausible(SlotIndex request, RequestKey key) const noexcept {
  const Bytes planned = key_bytes(plan_.slot(request).key);
  if (key_bytes(key) <= tuning::kNumber && planned >= tuning::kTensor) return false;
  const bool large = plan_.is_large(key_bytes(key));
  if (!plan_.landmark(request)) {
    return (!large && key_bytes(key) < tuning::kSample) || may_have_grown(request, key);
  }
  if (large) return true;
  return key_bytes(key) >= std::min(tuning::kSample, planned / tuning::kShrinks);
}

bool SizesToday::may_have_grown(SlotIndex request, RequestKey key) const noexcept {
  return varies_for(request, key) &&
         key_bytes(key) <= tuning::kGrows * key_bytes(plan_.slot(request).key);
}

double SizesToday::ratio(SlotIndex request, RequestKey key) const noexcept {
  return static_cast<double>(key_bytes(key)) /
         static_cast<double>(key_bytes(plan_.slot(request).key));
}

}  // namespace pgmo

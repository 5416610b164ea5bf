// The instance of ExpandableSegmentsOf for torch's settings: see expandable.hpp.
//
// Only baseline.hpp and adapter.hpp include this file.

#pragma once

#if __has_include(<c10/core/AllocatorConfig.h>)
#include <c10/core/AllocatorConfig.h>
#endif

#include "adapters/cuda/pools/expandable.hpp"

namespace c10::CachingAllocator {
class AcceleratorAllocatorConfig;  // incomplete in versions of torch without it
}

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

// Whether the pool of the capture that this thread is about to begin may get expandable segments.
thread_local bool may_expand = false;

using ExpandableSegments =
    ::pgmo::ExpandableSegmentsOf<c10::CachingAllocator::AcceleratorAllocatorConfig>;

// Never destroyed.
ExpandableSegments& expandable_segments() {
  static auto* const only = new ExpandableSegments;
  return *only;
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo

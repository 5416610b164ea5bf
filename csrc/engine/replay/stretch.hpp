// A plan for sizes beyond those that it was made for.
//
//     shorter     a 4   b 2   c 3          an iteration that was seen once
//     planned     a 8   b 2   c 6          the longest one so far
//     asked for   a 12  ...                a plan for  a 12  b 2  c 9, its slots in the same order
//
// Addresses are free, so a plan need not be small; it has to keep its slots where their pages are.
// So no slot lies lower than before, and above another one that grows it moves up by just as much.

#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/replay/replay_plan.hpp"

namespace pgmo {

// The rows of the plan for an iteration in which `request` has so many bytes, which are more than
// planned; the caller has to check that they lie within its arenas. Nothing where the sizes of
// `request` at two lengths are not known. Throws std::bad_alloc.
//
// Other sizes follow from these two: on a line through both, or by a power of the ratio, whichever
// is more. What is in proportion to the length, or to its square, is met exactly, and so is a line
// where `request` is on one. Where the size in a shorter iteration is not known, it is taken to be
// in proportion.
std::optional<std::vector<PlannedRequest>> stretch(std::span<const PlannedRequest> plan,
                                                   SlotIndex request, Bytes bytes, Bytes alignment);

}  // namespace pgmo

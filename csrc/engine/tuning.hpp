// The numbers by which replay recognises requests, and by which plans get pages. They decide what
// is found and what it costs; no value of theirs can serve a range in which a block lives.

#pragma once

#include <cstddef>
#include <cstdint>

#include "types.hpp"

namespace pgmo::tuning {

// --- which plan an iteration follows ---

// First requests of an iteration that choose among several plans: structures that begin alike for
// longer are told apart as they go on.
constexpr std::uint32_t kPrefix = 16;

// --- a request that is not the expected one ---

// Requests ahead of the cursor, and behind it, in which one that is not expected is looked for. A
// miss costs as many comparisons. On other people's loops 24 and 32 served most bytes; from 40 on
// more requests were taken for those of another layer than found.
constexpr std::uint32_t kLookAhead = 32;

// A request of fewer bytes is a number that is logged, and not a larger one at another length.
constexpr Bytes kNumber = 512;

// How many times its planned bytes a varying request may have, as the longest so far. With 2 or 16
// fewer bytes were served.
constexpr Bytes kGrows = 4;

// Times in an iteration that its plan is made larger. More are for sizes that follow no law.
constexpr int kMostStretches = 3;

// --- pages ---

// Of an iteration's bytes, those without a slot: from which on it departs from its plan.
constexpr double kDepartingShare = 1.0 / 16;

// Iterations in a row that follow their plan, until pages are mapped for it: where they take turns
// with others, pages would go back and forth.
constexpr int kFollowed = 2;

// Blocks of so many bytes are worth a look at how much of them was touched.
inline constexpr Bytes kLooked = Bytes{1} << 20;

}  // namespace pgmo::tuning

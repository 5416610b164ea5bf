// The numbers by which replay recognises requests, with their reasons. They decide what is found,
// and how long is looked for it; no value of theirs can serve a range in which a block lives.

#pragma once

#include <cstddef>
#include <cstdint>

#include "types.hpp"

namespace pgmo::tuning {

// --- which plan an iteration follows ---

// Of a prefix, for a request of exactly the planned size.
constexpr int kFullScore = 8;

// --- a request that is not the expected one ---

// Requests ahead in which one is looked for that was not expected yet: some were left out, or some
// other thread has overtaken this one.
constexpr std::uint32_t kNearWindow = 16;

// The same while the next request may be it, for all that is known of its size.
constexpr std::uint32_t kOpenWindow = 4;

// Requests ahead in which a branch of the program that was skipped is looked for.
constexpr std::uint32_t kFarWindow = 1u << 16;

// Places there that are tried, each by the requests that would follow.
constexpr int kMostCandidates = 32;

// Requests that a plan has one after the other, as they came, before one that leads there: one, and
// one more for each time that this was wrong in an iteration.
constexpr std::size_t kMostReasons = 8;

// After a jump: of the requests that the plan knows and those that it does not, how many times as
// many have to be known. An average of weights asks for each size twice, and half of it is found
// wherever it is looked for.
constexpr std::uint64_t kAgreeing = 4;

// Requests not known from which on a jump is wrong, unless so many more are.
constexpr std::uint64_t kAstray = 8;

// Requests known from which on the last one is right, unless too many are not.
constexpr std::uint64_t kFollowedJump = 64;

// Requests in a row that a plan has behind, one after the other, from which on a part of the
// program comes once more.
constexpr std::uint32_t kRepeated = 8;

// Requests missed in a row that are kept to be compared: as many as anybody looks back at.
constexpr std::size_t kMostMissed = kMostReasons > kRepeated ? kMostReasons : kRepeated;

// Of a plan's bytes: what its smallest requests have together. They are small change: to serve them
// elsewhere costs nothing, and to be wrong about them costs all that they would have passed over.
constexpr double kSmallChange = 1.0 / 128;

// Larger ones that a small request may tell to be left out, if it is just the one that comes then.
constexpr std::uint32_t kLeftOut = 1;

// A request of so few bytes is a number, and not a tensor planned for some hundred times as many.
constexpr Bytes kNumber = 16;
constexpr Bytes kTensor = 4096;

// Small change in a row, in which a tensor tells that it is over: collating a batch makes some of
// each sample.
constexpr std::uint32_t kSmallWindow = 256;

// By which a request may be larger, or smaller, than it was planned, while nothing is known of
// today's lengths.
constexpr Bytes kGrows = 4;
constexpr Bytes kShrinks = 16;

// No sample's share of small change is as large: what is may be any tensor, at a much shorter
// length. What grows with its square is a thirty-sixth at a sixth of it.
constexpr Bytes kSample = Bytes{64} << 10;

// By which the sizes of one iteration may differ from those planned by one factor: alignment.
constexpr double kRatioTolerance = 1.0 / 64;

// Varying requests in a row that contradict the sizes of before, from which on others are expected:
// an iteration may consist of micro-batches, each of its own length.
constexpr int kContradictions = 2;

// Requests that were passed over and may still come, out of order.
constexpr std::size_t kMostSkipped = 16;

// Requests larger than planned that are remembered: the plan is made anew long before.
constexpr std::size_t kMostGrown = std::size_t{1} << 20;

}  // namespace pgmo::tuning

// Pending work and the mapped memory that it uses. The rules are in state.hpp.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "state.hpp"

namespace fakecuda {
namespace {

struct Use {
  MappedPart part;
  bool writes;
};

// A pending copy or set, whose memory is known.
struct PendingWork {
  Waits waits;
  uint64_t stream;
  uint64_t number;
  std::vector<Use> uses;
};

// All pending kernels of one stream. They may use all memory that was mapped when the last of them
// was submitted.
struct PendingKernels {
  Waits waits;
  uint64_t stream;
  int device;
  uint64_t newest;  // number of the latest mapping when the last kernel was submitted
};

std::vector<PendingWork>& pending_work() {
  static auto* all = new std::vector<PendingWork>;
  return *all;
}

std::vector<PendingKernels>& pending_kernels() {
  static auto* all = new std::vector<PendingKernels>;
  return *all;
}

enum Violation { kCertain, kPossible };
std::array<size_t, 2> violations{};

void forget_finished() {
  std::erase_if(pending_work(), [](auto& work) { return finished(work.waits); });
  std::erase_if(pending_kernels(), [](auto& kernels) { return finished(kernels.waits); });
}

std::vector<Use> find_uses(const std::vector<Access>& accesses) {
  std::vector<Use> uses;
  for (const Access& access : accesses)
    for (const MappedPart& part : mapped_parts(access.begin, access.bytes))
      uses.push_back({part, access.writes});
  return uses;
}

bool conflict(const Use& one, const Use& other) {
  return (one.writes || other.writes) && one.part.handle == other.part.handle &&
         one.part.begin < other.part.end && other.part.begin < one.part.end;
}

bool conflict(const std::vector<Use>& some, const std::vector<Use>& others) {
  return std::any_of(some.begin(), some.end(), [&](const Use& one) {
    return std::any_of(others.begin(), others.end(),
                       [&](const Use& other) { return conflict(one, other); });
  });
}

bool comes_after(const Stream& stream, const PendingWork& work) {
  const auto found = stream.after.find(work.stream);
  return found != stream.after.end() && found->second >= work.number;
}

}  // namespace

bool idle(Stream& stream) {
  const bool nothing_pending = finished(stream.waits);
  if (nothing_pending) stream.after.clear();
  return nothing_pending;
}

void come_after(Clock& clock, const Clock& other) {
  for (const auto& [stream, number] : other) clock[stream] = std::max(clock[stream], number);
}

void note_work(Stream& stream, const Work& work) {
  static uint64_t next = 0;
  forget_finished();
  const bool pending = !idle(stream);
  if (!pending && pending_work().empty()) return;
  std::vector<Use> uses = find_uses(work.accesses);
  const bool handed_over =
      std::any_of(pending_work().begin(), pending_work().end(), [&](const PendingWork& earlier) {
        return !comes_after(stream, earlier) && conflict(uses, earlier.uses);
      });
  if (handed_over) ++violations[kCertain];
  if (!pending) return;
  stream.after[stream.number] = ++next;
  if (work.kernel) {
    std::erase_if(pending_kernels(),
                  [&](auto& kernels) { return kernels.stream == stream.number; });
    pending_kernels().push_back({stream.waits, stream.number, stream.device, newest_map()});
  }
  if (!uses.empty()) pending_work().push_back({stream.waits, stream.number, next, std::move(uses)});
}

void note_unmapping(uint64_t mapping, const std::vector<int>& devices) {
  forget_finished();
  const bool certain =
      std::any_of(pending_work().begin(), pending_work().end(), [=](const PendingWork& work) {
        return std::any_of(work.uses.begin(), work.uses.end(),
                           [=](const Use& use) { return use.part.mapping == mapping; });
      });
  const bool possible = std::any_of(
      pending_kernels().begin(), pending_kernels().end(), [&](const PendingKernels& kernels) {
        return kernels.newest >= mapping &&
               std::find(devices.begin(), devices.end(), kernels.device) != devices.end();
      });
  if (certain)
    ++violations[kCertain];
  else if (possible)
    ++violations[kPossible];
}

}  // namespace fakecuda

using namespace fakecuda;

// Return the number of violations since the last reset: certain violations, or, if `kernels` is not
// zero, possible ones by kernels.
extern "C" size_t fakecuda_violations(int kernels, int reset) {
  const Guard guard(state_mutex());
  size_t& counter = violations[kernels ? kPossible : kCertain];
  const size_t counted = counter;
  if (reset) counter = 0;
  return counted;
}

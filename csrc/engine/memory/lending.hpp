// When pages of an arena in which nothing lives go back to the system amid an iteration.
//
//     slots      ▓▓▓▓▓▓▓▓▓▓           the arena stays resident once it was touched
//     missed               ▒▒▒▒▒▒     and what has no slot comes on top of it
//                ────────────|────    needed: what was ever alive at once, slots and others
//
// An iteration that departs from its plan would have both. So pages are lent as soon as both are
// more than the program ever had alive, for that much it would have without an arena, too. A plan
// for several lengths may itself spread over more than that, and is swept some times in an
// iteration. What is resident is not asked of the
// system: it is at most what was served since pages were last returned, and at most what lies below
// the highest slot. Blocks of which hardly anything is touched count nowhere.

#pragma once

#include <algorithm>

#include "heuristics.hpp"
#include "types.hpp"

namespace pgmo {

class Lending {
 public:
  // The heuristics outlive it.
  explicit Lending(const Heuristics& heuristics) noexcept : heuristics_(heuristics) {}

  // Off where memory is none of the process's own private memory.
  void set(bool on) noexcept { on_ = on; }
  bool on() const noexcept { return on_; }

  // A slot is served that ends at this offset; what lives then, slots and the framework's.
  void served(Offset end, Bytes bytes, Bytes slots, Bytes foreign) noexcept {
    if (!on_) [[likely]]
      return;
    highest_ = std::max(highest_, end);
    touched_ += bytes;
    needed_ = std::max(needed_, slots + foreign);
  }

  // A slot was served: whether slots alone have spread over more than is needed, as far as a whole
  // iteration has shown what that is.
  bool overfull(Bytes foreign) const noexcept {
    if (!on_) [[likely]]
      return false;
    // In an iteration that departs from its plan, malloc keeps what was missed and freed, too.
    const Bytes others = sweeps_ > 0 ? most_foreign_ : foreign;
    return known_ && sweeps_ < kMostSweeps &&
           std::min(highest_, touched_) + others > needed_ + spare();
  }

  // The framework has served a request; whether pages are to be lent for it.
  bool due(Bytes slots, Bytes foreign) noexcept {
    if (!on_) [[likely]]
      return false;
    needed_ = std::max(needed_, slots + foreign);
    most_foreign_ = std::max(most_foreign_, foreign);
    return foreign >= again_at_ &&
           std::min(highest_, touched_) + foreign > needed_ + heuristics_.small_block;
  }

  // The same in a pause, where nothing is counted: a large block is of an evaluation, whose memory
  // would come on top of the arena's.
  bool due_in_pause(Bytes bytes, Bytes slots) const noexcept {
    return on_ && bytes >= heuristics_.small_block &&
           std::min(highest_, touched_) > slots + heuristics_.small_block;
  }

  // All pages in which nothing lives have gone back. It costs something each time, so the next time
  // in this iteration is when there is some more of the framework's.
  void returned(Bytes slots, Bytes foreign) noexcept {
    touched_ = slots;
    most_foreign_ = foreign;
    ++sweeps_;
    put_off(foreign);
  }

  // Whether pages have gone back in this iteration.
  bool has_returned() const noexcept { return sweeps_ > 0; }

  void put_off(Bytes foreign) noexcept { again_at_ = foreign + spare(); }

  void end_iteration() noexcept {
    again_at_ = 0;
    sweeps_ = 0;
    known_ = true;
  }

  // What went back in a pause says nothing of the iteration that goes on.
  void resumed() noexcept { again_at_ = sweeps_ = 0; }

  // What counts is another measure from now on.
  void restart() noexcept {
    needed_ = 0;
    known_ = false;
  }

  // Other arenas, none of which is resident.
  void exchanged() noexcept { highest_ = touched_ = 0; }

 private:
  // Returns for slots in one iteration. Protects one with many requests, which would spend its time
  // on them; the usual one has its peak before.
  static constexpr int kMostSweeps = 8;

  Bytes spare() const noexcept {
    return std::max(heuristics_.small_block,
                    static_cast<Bytes>(heuristics_.lending_share * static_cast<double>(needed_)));
  }

  const Heuristics& heuristics_;
  bool on_ = false;
  bool known_ = false;  // an iteration has ended since what is needed was last counted anew
  int sweeps_ = 0;      // in this iteration
  Offset highest_ = 0;
  Bytes touched_ = 0;  // at most
  Bytes needed_ = 0;
  Bytes most_foreign_ = 0;  // since pages were last returned
  Bytes again_at_ = 0;
};

}  // namespace pgmo

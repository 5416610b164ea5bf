// Decides when idle pages of an arena go back to the system during an iteration.
//
//     slots      ▓▓▓▓▓▓▓▓▓▓           the arena stays resident once it was touched
//     missed               ▒▒▒▒▒▒     blocks without a slot come on top of it
//                ────────────|────    needed: highest sum ever alive, slots and others
//
// An iteration that diverges from its plan would occupy both. Pages are therefore lent as soon as
// their sum exceeds the most that the program ever had alive, which it would need without an arena
// too. A plan for several lengths may itself spread over more than that; it is swept several times
// per iteration. Resident bytes are not measured but bounded: by the bytes served since pages were
// last returned, and by the end of the highest slot. Blocks that are hardly touched do not count.

#pragma once

#include <algorithm>

#include "heuristics.hpp"
#include "types.hpp"

namespace pgmo {

class Lending {
 public:
  // The heuristics must outlive this object.
  explicit Lending(const Heuristics& heuristics) noexcept : heuristics_(heuristics) {}

  // Stays off unless arenas lie in the process's own private memory.
  void set(bool on) noexcept { on_ = on; }
  bool on() const noexcept { return on_; }

  // Count a served slot that ends at this offset, with the live bytes of slots and framework
  // blocks.
  void served(Offset end, Bytes bytes, Bytes slots, Bytes foreign) noexcept {
    if (!on_) [[likely]]
      return;
    highest_ = std::max(highest_, end);
    touched_ += bytes;
    needed_ = std::max(needed_, slots + foreign);
  }

  // Return whether slots alone have spread over more than the program needs. False until a whole
  // iteration has shown that need.
  bool overfull(Bytes foreign) const noexcept {
    if (!on_) [[likely]]
      return false;
    // In an iteration that diverges from its plan, malloc also keeps missed blocks that were freed.
    const Bytes others = sweeps_ > 0 ? most_foreign_ : foreign;
    return known_ && sweeps_ < kMostSweeps &&
           std::min(highest_, touched_) + others > needed_ + spare();
  }

  // Count a request that the framework served; return whether to lend pages for it.
  bool due(Bytes slots, Bytes foreign) noexcept {
    if (!on_) [[likely]]
      return false;
    needed_ = std::max(needed_, slots + foreign);
    most_foreign_ = std::max(most_foreign_, foreign);
    return foreign >= again_at_ &&
           std::min(highest_, touched_) + foreign > needed_ + heuristics_.small_block;
  }

  // Return whether to lend pages during a pause, when nothing is counted. A large block then
  // belongs to an evaluation, whose memory would come on top of the arena's.
  bool due_in_pause(Bytes bytes, Bytes slots) const noexcept {
    return on_ && bytes >= heuristics_.small_block &&
           std::min(highest_, touched_) > slots + heuristics_.small_block;
  }

  // Note that all idle pages were returned. Returning has a cost, so the next return in this
  // iteration waits until framework blocks have grown by `spare()`.
  void returned(Bytes slots, Bytes foreign) noexcept {
    touched_ = slots;
    most_foreign_ = foreign;
    ++sweeps_;
    put_off(foreign);
  }

  // Return whether pages went back in this iteration.
  bool has_returned() const noexcept { return sweeps_ > 0; }

  void put_off(Bytes foreign) noexcept { again_at_ = foreign + spare(); }

  void end_iteration() noexcept {
    again_at_ = 0;
    sweeps_ = 0;
    known_ = true;
  }

  // Returns during a pause do not count for the interrupted iteration.
  void resumed() noexcept { again_at_ = sweeps_ = 0; }

  // Start measuring the need anew, because the definition of sparse blocks has changed.
  void restart() noexcept {
    needed_ = 0;
    known_ = false;
  }

  // Note that new arenas replace the old ones; nothing of them is resident.
  void exchanged() noexcept { highest_ = touched_ = 0; }

 private:
  // Maximum returns per iteration on behalf of slots. It protects iterations with many requests,
  // which would spend their time on returns; usually the peak comes earlier.
  static constexpr int kMostSweeps = 8;

  Bytes spare() const noexcept {
    return std::max(heuristics_.small_block,
                    static_cast<Bytes>(heuristics_.lending_share * static_cast<double>(needed_)));
  }

  const Heuristics& heuristics_;
  bool on_ = false;
  bool known_ = false;  // whether an iteration has ended since `needed_` was reset
  int sweeps_ = 0;      // in this iteration
  Offset highest_ = 0;
  Bytes touched_ = 0;  // upper bound
  Bytes needed_ = 0;
  Bytes most_foreign_ = 0;  // since pages were last returned
  Bytes again_at_ = 0;
};

}  // namespace pgmo

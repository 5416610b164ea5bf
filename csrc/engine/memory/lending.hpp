// Decides when idle pages of arenas are *lent*: returned to the system during an iteration.
//
//     slots      ▓▓▓▓▓▓▓▓▓▓           pages of an arena stay resident once they are touched
//     missed               ▒▒▒▒▒▒     blocks without a slot need memory in addition
//                ────────────|────    need: the most bytes ever alive, slots and others
//
// An iteration that diverges from its plan would occupy both kinds of memory. So pages are lent as
// soon as the sum exceeds the *need*: the largest live bytes of the program so far. The program
// would occupy these bytes without an arena, too. Slots of a plan for several lengths may alone
// spread over more than the need. Then pages are lent several times per iteration. Resident bytes
// of arenas are not measured. They have two upper bounds, and the smaller one counts: the end of
// the highest slot, and the bytes of all slots that were live when pages were last lent or were
// served since. Sparse blocks (statistics.hpp) do not count.
//
// All sizes are in bytes. Calls require the engine's lock.

#pragma once

#include <algorithm>

#include "heuristics.hpp"
#include "types.hpp"

namespace pgmo {

class Lending {
 public:
  // The heuristics must outlive this object.
  explicit Lending(const Heuristics& heuristics) noexcept : heuristics_(heuristics) {}

  // Switch lending on or off. Only arenas in the process's own private memory can be lent.
  void set(bool on) noexcept { on_ = on; }
  bool on() const noexcept { return on_; }

  // Count a served slot of `bytes` bytes that ends at offset `end`. `slots` and `foreign`, here and
  // below: live bytes of all slots, and of all framework blocks, without sparse blocks.
  void served(Offset end, Bytes bytes, Bytes slots, Bytes foreign) noexcept {
    if (!on_) [[likely]]
      return;
    highest_ = std::max(highest_, end);
    touched_ += bytes;
    needed_ = std::max(needed_, slots + foreign);
  }

  // Return whether to lend pages for a slot, because slots and framework blocks may together occupy
  // more than the need. Returns false until a whole iteration has shown the need, and after
  // kMostReturns returns in one iteration.
  bool slots_exceed_need(Bytes foreign) const noexcept {
    if (!on_) [[likely]]
      return false;
    // After a return, malloc keeps the memory of freed framework blocks, so count their peak.
    const Bytes others = returns_ > 0 ? most_foreign_ : foreign;
    return need_is_known_ && returns_ < kMostReturns &&
           std::min(highest_, touched_) + others > needed_ + spare();
  }

  // Count a request that the framework has served; return whether to lend pages for it.
  bool should_lend(Bytes slots, Bytes foreign) noexcept {
    if (!on_) [[likely]]
      return false;
    needed_ = std::max(needed_, slots + foreign);
    most_foreign_ = std::max(most_foreign_, foreign);
    return foreign >= return_again_at_ &&
           std::min(highest_, touched_) + foreign > needed_ + heuristics_.small_block;
  }

  // Return whether to lend pages for a framework block of `bytes` bytes during a pause, when
  // nothing is counted. A large block in a pause usually belongs to an evaluation, which would need
  // memory in addition to the arena.
  bool should_lend_in_pause(Bytes bytes, Bytes slots) const noexcept {
    return on_ && bytes >= heuristics_.small_block &&
           std::min(highest_, touched_) > slots + heuristics_.small_block;
  }

  // Record that all idle pages were lent. A return costs system calls, so `should_lend` is false
  // until framework blocks have grown by `spare()`, or the iteration ends.
  void returned(Bytes slots, Bytes foreign) noexcept {
    touched_ = slots;
    most_foreign_ = foreign;
    ++returns_;
    delay_next_return(foreign);
  }

  // Return whether pages were lent in this iteration.
  bool has_returned() const noexcept { return returns_ > 0; }

  // Delay the next return until framework blocks have grown from `foreign` by `spare()`.
  void delay_next_return(Bytes foreign) noexcept { return_again_at_ = foreign + spare(); }

  void end_iteration() noexcept {
    return_again_at_ = 0;
    returns_ = 0;
    need_is_known_ = true;
  }

  // End a pause in which pages were lent: these returns do not count for the interrupted iteration.
  void end_pause() noexcept { return_again_at_ = returns_ = 0; }

  // Measure the need from zero again, because the threshold of sparse blocks has changed.
  void restart() noexcept {
    needed_ = 0;
    need_is_known_ = false;
  }

  // Record that the arenas were retired. No page of later arenas is resident yet.
  void arenas_retired() noexcept { highest_ = touched_ = 0; }

 private:
  // Number of returns in an iteration after which slots cause no more returns. Framework blocks
  // still do. Iterations with many requests would otherwise spend their time on returns. Eight
  // returns usually last until after the peak.
  static constexpr int kMostReturns = 8;

  // Return how many bytes beyond the need are tolerated.
  Bytes spare() const noexcept {
    return std::max(heuristics_.small_block,
                    static_cast<Bytes>(heuristics_.lending_share * static_cast<double>(needed_)));
  }

  const Heuristics& heuristics_;
  bool on_ = false;
  bool need_is_known_ = false;  // whether an iteration has ended since `needed_` was reset
  int returns_ = 0;             // number of returns in this iteration
  Offset highest_ = 0;          // end of the highest slot served
  Bytes touched_ = 0;           // upper bound of the bytes touched in arenas since the last return
  Bytes needed_ = 0;            // most bytes alive at once, slots and framework blocks
  Bytes most_foreign_ = 0;      // most live bytes of framework blocks since the last return
  Bytes return_again_at_ = 0;  // live bytes of framework blocks from which on to return pages again
};

}  // namespace pgmo

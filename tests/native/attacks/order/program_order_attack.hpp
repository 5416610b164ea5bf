// Attack on pages::ProgramOrder. The order that it knows may be less than the actual order, as
// after missed calls, but never more.
//
//     received   record e on 0 ··········silence·········· lost ──▶ 1 waits for e: behind what?
//     happened   record e on 0 ── record e on 2 ─────────────────▶ behind 2, not behind 0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "oracle.hpp"
#include "order_oracle.hpp"
#include "ordered_program.hpp"
#include "pages/pool/program_order.hpp"
#include "random.hpp"

namespace pgmo::test {

class ProgramOrderAttack {
 public:
  explicit ProgramOrderAttack(Random& random) : random_(random) {}

  void run() {
    constexpr int kSteps = 60;
    for (int step = 0; step < kSteps; ++step) {
      if (random_.chance(0.05)) silent_ = true;
      act(OrderedProgram::any_stream(random_), OrderedProgram::any_event(random_));
      check();
    }
  }

 private:
  // An event of pgmo, and the number of the program's event that is as late, or its own number.
  struct Ours {
    pages::Stream stream;
    std::uint64_t count;
    std::uint64_t as_late;
  };

  void act(pages::Stream stream, std::size_t event) {
    switch (random_.between(0, 4)) {
      case 0:  // a request detects that calls were missed
        if (silent_) order_.lost();
        silent_ = false;
        oracle_.given(stream);
        return order_.given(stream, number_);
      case 1:
        events_[event] = oracle_.here(stream);
        if (!silent_) order_.recorded(stream, event, number_++);
        return;
      case 2:
        oracle_.wait(stream, events_[event]);
        oracle_.given(stream);
        if (!silent_) order_.waited(stream, event, number_);
        return;
      case 3:
        oracle_.host_waits(oracle_.here(stream));
        if (!silent_) order_.done(stream, number_++);
        return;
      default:
        if (silent_) return;
        ours_.push_back({stream, oracle_.count(stream), order_.as_late(stream, number_)});
        ++number_;
    }
  }

  void check() const {
    for (const Ours& one : ours_) {
      for (pages::Stream stream = 0; stream < kOrderedStreams; ++stream) {
        if (stream == one.stream || !order_.implies(stream, one.stream, one.as_late)) continue;
        require(oracle_.is_behind(stream, one.stream, one.count),
                "a wait is taken for one of the program's");
      }
    }
  }

  Random& random_;
  pages::ProgramOrder order_;
  OrderOracle oracle_;
  std::array<Counts, OrderedProgram::kEvents> events_{};
  std::vector<Ours> ours_;
  std::uint64_t number_ = 1;
  bool silent_ = false;
};

}  // namespace pgmo::test

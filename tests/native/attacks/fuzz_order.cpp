// Attack on the order of streams: random programs whose events order several streams, and engines
// that replay them.
//
//     stream 0   ──r0──r2──▲e──free r0──r5──▶
//     stream 1   ──r1───────▽w────r3────────▶      an oracle knows: r3 comes after r0 and r2
//
// A stream gets a page only once the page's last users are done, or the stream is ordered behind
// them. A plan has the order that the oracle knows. Half of the programs follow their plans. Once
// their pages are in place, no page is mapped. They wait only where their own calls imply a wait.
// The other programs diverge from their plans.

#include <cstdio>
#include <map>
#include <vector>

#include "arguments.hpp"
#include "engine/engine.hpp"
#include "lagging_device.hpp"
#include "oracle.hpp"
#include "order_oracle.hpp"
#include "ordered_program.hpp"
#include "pages/space.hpp"
#include "program_order_attack.hpp"
#include "random.hpp"

namespace pgmo::test {
namespace {

struct Seen {
  // One in this many programs may permanently miss a slot, because another mapping is in the way.
  static constexpr std::uint64_t kFew = 1000;

  std::uint64_t events = 0, programs = 0, waits = 0, hand_overs = 0, misses = 0, slots = 0,
                windows = 0, added = 0, refused = 0, arranged = 0, followed = 0, restless = 0;

  void require_all() const {
    require(slots > 0 && windows > 0 && refused > 0, "nothing was served");
    require(hand_overs > 0 && waits > 0 && arranged > 0, "no streams shared pages");
    require(added > 0, "no program departed from its order");
    require(followed > 0 && restless * kFew <= followed,
            "programs wait for what they would not wait for, or their pages never come to rest");
  }

  void print(std::uint64_t seed) const {
    const auto number = [](std::uint64_t one) { return static_cast<unsigned long long>(one); };
    std::printf(
        "seed %llu: %llu events of %llu programs, no violation; %llu slots, %llu in windows, %llu "
        "refused, %llu pages arranged, %llu handed over, %llu waits, %llu of them added, %llu "
        "programs not at rest\n",
        number(seed), number(events), number(programs), number(slots), number(windows),
        number(refused), number(arranged), number(hand_overs), number(waits), number(added),
        number(restless));
  }
};

class Episode {
 public:
  Episode(std::uint64_t seed, Seen& seen)
      : random_(seed),
        seen_(seen),
        program_(random_),
        wildness_(random_.chance(0.5) ? 0 : static_cast<double>(random_.between(1, 30)) / 100),
        device_(static_cast<std::size_t>(random_.between(0, 3)),
                static_cast<std::size_t>(follows() ? kAnyCard : random_.between(20, 120))),
        space_{device_, properties(), heuristics()} {
    engine_.use_pages(space_);
    std::array<std::uint64_t, kOrderedStreams> numbers{};
    for (pages::Stream stream = 0; stream < kOrderedStreams; ++stream) {
      numbers[stream] = stream;
      engine_.add_arena(stream, program_.begins[stream],
                        engine_.reserve_arena(space_, program_.sizes[stream], stream));
    }
    const bool blind = !follows() && random_.chance(0.2);
    engine_.add_plan(program_.rows, numbers, program_.whole, 1,
                     blind ? std::vector<Tick>() : program_.behind());
    engine_.start_serving();
  }

  void run() {
    if (follows()) {
      ++seen_.followed;
      follow();
    } else {
      for (int turn = 0; turn < kTurns; ++turn) iterate();
    }
    while (!living_.empty()) free(living_.begin());
    const pages::PageStatistics pages = space_.statistics();
    seen_.hand_overs += pages.hand_overs;
    seen_.arranged += pages.arranged;
    seen_.waits += device_.waits;
    seen_.added += device_.added;
    engine_.remove_plans();
    engine_.detach_arena();
    ++seen_.programs;
  }

 private:
  // Follow the plan until all pages are in place and stay there.
  void follow() {
    for (int turn = 0, calm = 0; calm < kCalm; ++turn) {
      if (turn == kMostTurns) {
        ++seen_.restless;
        return;
      }
      const std::uint64_t maps = device_.maps, added = device_.added, missed = missed_;
      iterate();
      const bool same = device_.maps == maps && missed_ == missed && device_.added == added;
      calm = same ? calm + 1 : 0;
    }
  }

  static constexpr int kTurns = 30;
  static constexpr int kMostTurns = 100;  // iterations until all pages are in place
  static constexpr int kCalm = 4;
  static constexpr std::int64_t kAnyCard = 1 << 20;

  struct Block {
    pages::Extent where;
    std::uint64_t streams;  // streams that use the block, one bit each
    bool is_slot;
    pages::Stream other = 0;  // a stream that uses the slot, and its work (`until`) at that time
    std::uint64_t until = 0;
  };
  using Living = std::multimap<Tick, Block>;

  bool follows() const { return wildness_ == 0; }
  bool departs(double share) { return wildness_ > 0 && random_.chance(wildness_ * share); }

  pages::DeviceProperties properties() {
    return {.page = OrderedProgram::kPage, .aliases = follows() || random_.chance(0.8)};
  }

  Heuristics heuristics() {
    Heuristics chosen;
    chosen.freed_per_event = OrderedProgram::kPage * random_.between(1, 100);
    chosen.spare_share = 1;  // with fewer extra pages, some slots are permanently missed
    if (!follows()) chosen.stale_mappings = static_cast<std::size_t>(random_.between(0, 100));
    return chosen;
  }

  void iterate() {
    for (Tick tick = 0; tick < program_.ticks; ++tick, ++clock_) {
      free_what_ends();
      for (const Act& one : program_.acts[static_cast<std::size_t>(tick)]) {
        if (!departs(0.5)) act(one);
      }
      if (departs(0.3)) act(OrderedProgram::any_wait(random_, true));
      if (departs(0.3)) stranger();
      if (departs(0.1)) space_.give_back(random_.between(1, 20) * OrderedProgram::kPage);
      if (departs(0.3)) continue;
      const PlannedRequest& row = program_.rows[static_cast<std::size_t>(tick)];
      const Tick end = departs(0.3) ? random_.between(1, 3 * program_.ticks) : row.end - tick;
      request(departs(0.3) ? row.bytes / 2 : row.bytes, row.stream_index, clock_ + end);
    }
    device_.end_iteration();
    if (departs(0.2)) return;
    engine_.end_iteration();
  }

  void act(const Act& one) {
    event();
    using Ordered = pages::Clocks::Ordered;
    const auto report = [&](Ordered what) { space_.ordered(what, one.stream, one.event + 1); };
    switch (one.kind) {
      case Act::Kind::kRecord:
        device_.record(one.event, one.stream);
        return report(Ordered::kRecorded);
      case Act::Kind::kWait:
        device_.wait_for(one.event, one.stream);
        return report(Ordered::kWaited);
      case Act::Kind::kWaitOnHost:
        device_.wait_on_host(one.stream);
        return report(Ordered::kStreamDone);
    }
  }

  void stranger() {
    request(random_.between(1, 6) * OrderedProgram::kPage / 2, OrderedProgram::any_stream(random_),
            clock_ + random_.between(1, 2 * program_.ticks));
  }

  // Request a block as an adapter does.
  void request(Bytes bytes, pages::Stream stream, Tick end) {
    event();
    void* const slot = engine_.allocate(static_cast<std::size_t>(bytes), stream);
    auto address = reinterpret_cast<pages::Address>(slot);
    if (slot == nullptr) {
      ++missed_;
      address = space_.allocate(bytes, stream);
      if (address == 0) {
        ++seen_.refused;
        return;
      }
      (void)engine_.adopt(reinterpret_cast<void*>(address), static_cast<std::size_t>(bytes),
                          stream);
    }
    ++(slot != nullptr ? seen_.slots : seen_.windows);
    const Block block{{address, bytes}, pages::Marks::bit(stream), slot != nullptr};
    device_.uses(block.where, stream);
    const auto added = living_.emplace(end, block);
    if (departs(0.3)) used_elsewhere(added->second);
  }

  // Let another stream use the block. A block of a window may be freed before the work of that
  // stream is done; a slot may not.
  void used_elsewhere(Block& block) {
    const pages::Stream other = OrderedProgram::any_stream(random_);
    if (block.is_slot) {
      block.other = other;
      block.until = device_.count(other);
    } else {
      block.streams |= pages::Marks::bit(other);
      require(space_.use_block(block.where.address, other), "a block is not known");
    }
  }

  void free_what_ends() {
    for (auto one = living_.begin(); one != living_.end() && one->first <= clock_;) {
      one = device_.done(one->second.other, one->second.until) ? free(one) : std::next(one);
    }
  }

  Living::iterator free(Living::iterator one) {
    event();
    const Block& block = one->second;
    device_.used(block.where, block.streams);
    if (!engine_.release(reinterpret_cast<void*>(block.where.address))) {
      require(space_.deallocate(block.where.address), "a block is not known");
    }
    return living_.erase(one);
  }

  void event() {
    ++seen_.events;
    ++whereabouts.event;
  }

  Random random_;
  Seen& seen_;
  OrderedProgram program_;
  double wildness_;
  LaggingDevice device_;
  pages::Space space_;
  Engine engine_;
  Living living_;
  Tick clock_ = 0;
  std::uint64_t missed_ = 0;
};

int attack(std::uint64_t seed, std::uint64_t events) {
  Seen seen;
  whereabouts = {seed, 0, 0};
  for (; seen.events < events; ++whereabouts.episode) {
    whereabouts.event = 0;
    Random random(seed * 1'000'003 + whereabouts.episode);
    ProgramOrderAttack(random).run();
    Episode(seed * 1'000'003 + whereabouts.episode, seen).run();
  }
  if (events >= 100'000) seen.require_all();
  seen.print(seed);
  return 0;
}

}  // namespace
}  // namespace pgmo::test

int main(int argc, char** argv) {
  const auto [seed, events] = pgmo::test::read_arguments(argc, argv, 10'000'000);
  return pgmo::test::attack(seed, events);
}

// Attack on the engine over pages: programs that diverge from their plans, on a card that is too
// small.
//
//     program ──▶ engine: a slot? ──no──▶ window       as an adapter does
//                   │        list_living ◀── pages are needed elsewhere
//                   └──▶ fake device: work is done later, pages are few, calls fail now and then
//
// Work on a block's stream fills the block after its allocation, and checks it before its free. An
// oracle knows the bytes and pages of each block. The attack runs in one thread first, where
// everything follows from --seed, and then in several threads.

#include <cstdint>
#include <iterator>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "engine/engine.hpp"
#include "fake_device.hpp"
#include "oracle.hpp"
#include "paged_ground.hpp"
#include "pages_attack.hpp"
#include "random.hpp"
#include "random_plan.hpp"

namespace pgmo::test {
namespace {

using pages::Stream;

// Return random sizes around the size of a page.
std::vector<Bytes> sizes_for(Random& random, Bytes page) {
  std::vector<Bytes> sizes;
  for (std::int64_t count = random.between(1, 8); count > 0; --count) {
    const Bytes most = random.chance(0.5) ? page / 2 : page * 9;
    sizes.push_back(random.between(1, most / 64) * 64);
  }
  return sizes;
}

struct Plans {
  std::vector<RandomPlan> all;
  Layout layout{};
  std::vector<Bytes> sizes;
};

Plans plans_for(Random& random, Bytes page, std::int64_t count) {
  PlanStyle style{.ticks = random.between(2, 60),
                  .alignment = 512,
                  .sizes = sizes_for(random, page),
                  .streams = random.chance(0.5) ? kPagedStreams : 1,
                  .varying = random.chance(0.5) ? 0.4 : 0.0,
                  .persistent = random.chance(0.5) ? 0.05 : 0.0,
                  .two_turns = random.chance(0.4) ? 0.04 : 0.0};
  Plans plans;
  for (; count > 0; --count) plans.all.push_back(random_plan(random, style));
  plans.layout = lay_out(random, plans.all, style);
  if (random.chance(0.8)) give_room(plans.all, plans.layout, 3);
  plans.sizes = style.sizes;
  return plans;
}

class Episode {
 public:
  Episode(std::uint64_t seed, std::uint64_t most_events, PagedSeen& seen)
      : random_(seed),
        seen_(seen),
        most_events_(most_events),
        ground_(random_, static_cast<std::size_t>(random_.between(60, 700))),
        page_(ground_.device().page()),
        wildness_(random_.chance(0.4)   ? 0.0
                  : random_.chance(0.5) ? 0.1
                                        : 0.5),
        streams_(random_, ground_.device(), kPagedStreams) {
    if (random_.chance(0.3)) {
      ground_.device().fail_one_in = static_cast<std::uint64_t>(random_.between(20, 2000));
    }
    if (random_.chance(0.2)) ground_.engine().start_recording();
  }

  void run() {
    replan();
    while (whereabouts.event < most_events_) {
      if (random_.chance(0.2)) {
        calm();
      } else {
        iterate(random_.pick(plans_.all));
      }
      if (random_.chance(0.05)) replan();
    }
    ground_.device().fail_one_in = 0;
    while (!living_.empty()) free_first();
    const pages::PageStatistics all = ground_.space().statistics();
    seen_.surrenders += all.surrenders;
    seen_.arranged += all.arranged;
    seen_.hand_overs += all.hand_overs;
    seen_.retracted +=
        ground_.engine().statistics().counters.misses[static_cast<int>(Miss::kNoArena)];
    ground_.finish();
  }

 private:
  void replan() {
    plans_ = plans_for(random_, page_, random_.between(1, 3));
    ground_.attach(plans_.all, plans_.layout, seen_);
    there_ = plans_.all;
  }

  // Follow a plan until its ranges are settled, and a little longer.
  void calm() {
    if (random_.chance(0.3)) {
      change_plans();
      for (std::int64_t late = random_.between(0, 3); late > 0 && !living_.empty(); --late) {
        auto first = living_.extract(living_.begin());
        first.key() += random_.between(1, 600);
        living_.insert(std::move(first));
      }
    }
    const double wild = std::exchange(wildness_, 0.0);
    const RandomPlan plan = random_.pick(there_);
    for (std::int64_t left = random_.between(3, 8); left > 0; --left) iterate(plan);
    wildness_ = wild;
  }

  void iterate(const RandomPlan& plan) {
    const auto ticks = static_cast<Tick>(plan.rows.size());
    const Bytes longer = random_.chance(0.1) ? random_.between(17, 24) : 0;
    for (Tick tick = 0; tick < ticks && whereabouts.event < most_events_; ++tick) {
      const PlannedRequest& row = plan.rows[static_cast<std::size_t>(tick)];
      while (!living_.empty() && living_.begin()->first <= now_ + tick) free_first();
      if (random_.chance(wildness_ / 4)) interfere();
      if (random_.chance(wildness_ / 3)) stranger(now_ + tick, ticks);
      if (random_.chance(wildness_ / 3)) continue;
      Bytes bytes = row.bytes;
      if (row.varying && random_.chance(0.3)) bytes = random_.between(1, row.bytes);
      if (row.varying && random_.chance(wildness_ / 2)) bytes += 512;
      if (row.varying && longer > 0) bytes = longer * row.bytes / 16;
      Tick end = row.end;
      if (row.offset == kUnplanned) end = tick + 10 * ticks;
      if (random_.chance(wildness_ / 3)) end = tick + random_.between(1, 3 * ticks);
      request(bytes, row.stream_index, now_ + end);
    }
    now_ += ticks;
    if (!random_.chance(wildness_ / 5)) ground_.engine().end_iteration();
  }

  void stranger(Tick now, Tick ticks) {
    request(random_.between(1, page_ * (random_.chance(0.2) ? 60 : 4)), streams_.any(),
            now + random_.between(1, 2 * ticks));
  }

  void request(Bytes bytes, Stream stream, Tick end) {
    ++whereabouts.event;
    bytes = (bytes + 63) / 64 * 64;  // the device writes words
    PagedBlock held;
    if (ground_.request(bytes, stream, next_pattern_++, held, seen_)) living_.emplace(end, held);
    streams_.work();
  }

  void free_first() {
    ++whereabouts.event;
    ground_.free(living_.begin()->second);
    living_.erase(living_.begin());
    streams_.work();
  }

  void interfere() {
    FakeDevice& device = ground_.device();
    switch (random_.between(0, 9)) {
      case 0:
        ground_.space().give_back(random_.between(1, 100) * page_);
        return;
      case 1:
        ground_.space().limit(random_.chance(0.5) ? Bytes{1} << 40
                                                  : random_.between(1, 500) * page_);
        return;
      case 2:
        streams_.hold_one_or_none();
        return;
      case 3:
        device.captured_streams = random_.chance(0.5) ? 0 : 1u << streams_.any();
        return;
      case 4:
        device.is_capturing = !device.is_capturing;
        return;
      case 5:
        if (ground_.engine().recording_truncated() || random_.chance(0.5)) {
          ground_.engine().stop_recording();
        } else {
          ground_.engine().start_recording();
        }
        return;
      case 6:
        ground_.engine().pause();
        return;
      case 7:
        device.is_capturing = false;
        return ground_.engine().resume();
      case 8:
        device.synchronize();
        return;
      default:
        change_plans();
    }
  }

  // Replace the plans by some of those for which the arenas were made.
  void change_plans() {
    ground_.engine().remove_plans();
    there_ = plans_.all;
    while (there_.size() > 1 && random_.chance(0.6)) {
      there_.erase(there_.begin() + random_.between(0, std::ssize(there_) - 1));
    }
    ground_.add_plans(there_);
  }

  Random random_;
  PagedSeen& seen_;
  std::uint64_t most_events_;
  PagedGround ground_;
  Bytes page_;
  double wildness_;
  RandomStreams streams_;
  Plans plans_;
  std::multimap<Tick, PagedBlock> living_;
  std::vector<RandomPlan> there_;  // the plans that the engine has
  Tick now_ = 0;
  std::uint64_t next_pattern_ = 0x7654321;
};

// --- from several threads ------------------------------------------------------------------------

class Crowd {
 public:
  Crowd(std::uint64_t seed, std::uint64_t events, PagedSeen& seen)
      : random_(seed), seed_(seed), seen_(seen), events_(events), ground_(random_, 900) {
    plans_ = plans_for(random_, ground_.device().page(), 2);
    ground_.attach(plans_.all, plans_.layout, seen_);
  }

  void run() {
    std::vector<std::thread> threads;
    for (std::uint64_t number = 0; number < kThreads; ++number) {
      threads.emplace_back([this, number] { work(number); });
    }
    for (std::thread& thread : threads) thread.join();
    ground_.finish();
  }

 private:
  static constexpr std::uint64_t kThreads = 3;

  void work(std::uint64_t number) {
    Random random(seed_ * kThreads + number);
    std::vector<PagedBlock> living;
    const auto page = ground_.device().page();
    for (std::uint64_t event = 0; event < events_ / kThreads; ++event) {
      if (random.chance(living.size() > 20 ? 0.3 : 0.55)) {
        Bytes bytes =
            random.chance(0.8) ? random.pick(plans_.sizes) : random.between(1, 40 * page / 64) * 64;
        if (random.chance(0.02)) bytes += bytes / 2 / 64 * 64;
        PagedBlock held;
        const auto stream = static_cast<Stream>(random.between(0, kPagedStreams - 1));
        if (ground_.request(bytes, stream, number << 48 | event, held, seen_)) {
          living.push_back(held);
        }
      } else if (!living.empty()) {
        ground_.free(living.back());
        living.pop_back();
      }
      if (number == 0 && random.chance(often_)) ground_.engine().end_iteration();
      if (number == 0 && random.chance(0.001)) replan();
      if (random.chance(often_ / 2)) ground_.space().give_back(random.between(1, 30) * page);
      ground_.device().run(
          3, [&] { return static_cast<Stream>(random.between(0, kPagedStreams - 1)); });
    }
    for (const PagedBlock& one : living) ground_.free(one);
  }

  void replan() { ground_.attach(plans_.all, plans_.layout, seen_); }

  Random random_;
  std::uint64_t seed_;
  PagedSeen& seen_;
  std::uint64_t events_;
  PagedGround ground_;
  // Probability per event that an iteration ends; `give_back` is half as likely. A high probability
  // makes ranges be settled and surrendered often.
  double often_ = random_.chance(0.5) ? 0.04 : 0.5;
  Plans plans_;
};

int attack(std::uint64_t seed, std::uint64_t events) {
  PagedSeen seen;
  for_each_episode(seed, events, [&](std::uint64_t episode, std::uint64_t most_events) {
    Episode(episode, most_events, seen).run();
  });
  for_each_crowd(seed, events,
                 [&](std::uint64_t crowd, std::uint64_t all) { Crowd(crowd, all, seen).run(); });
  if (events >= 100'000) seen.require_all();
  seen.print(seed, events);
  return 0;
}

}  // namespace
}  // namespace pgmo::test

int main(int argc, char** argv) {
  const auto [seed, events] = pgmo::test::read_arguments(argc, argv, 10'000'000);
  pgmo::test::notice_faults();
  return pgmo::test::attack(seed, events);
}

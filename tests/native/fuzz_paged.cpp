// The attack on the engine over pages: plans that bend, on a card that is too small.
//
//     program ──▶ engine: a slot? ──no──▶ window       as an adapter does
//                   │        list_living ◀── pages are needed elsewhere
//                   └──▶ fake device: work is done later, pages are few, calls fail now and then
//
// Each block is filled when it is born and checked when it dies, by work on its stream, and an
// oracle knows which bytes of which page it has. First from one thread, where everything follows
// from --seed, then from several.

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "engine/engine.hpp"
#include "fake_device.hpp"
#include "oracle.hpp"
#include "pages/space.hpp"
#include "physical_oracle.hpp"
#include "random.hpp"
#include "random_plan.hpp"

namespace pgmo::test {
namespace {

using pages::Address;
using pages::Extent;
using pages::Space;
using pages::Stream;

constexpr std::uint32_t kStreams = 2;

struct Held {
  Extent where{};
  Stream stream = 0;
  std::uint64_t pattern = 0;
};

// What has happened, so that an attack that misses something is noticed.
struct Seen {
  std::atomic<std::uint64_t> slots{0};
  std::atomic<std::uint64_t> settled{0};
  std::atomic<std::uint64_t> windows{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> retracted{0};
  std::atomic<std::uint64_t> surrenders{0};
  std::atomic<std::uint64_t> retired{0};
};

pages::Tuning tuning_for(Random& random, Bytes page) {
  pages::Tuning tuning;
  tuning.page = page;
  tuning.small = page / 2;
  tuning.span = page * 4000;
  tuning.slack = static_cast<std::size_t>(random.between(0, 1) * 20);
  tuning.aliases = random.chance(0.8);
  tuning.most_stale = static_cast<std::size_t>(random.chance(0.5) ? 0 : random.between(1, 400));
  tuning.freed_per_event = page * random.between(1, 100);
  return tuning;
}

// Sizes around that of a page.
std::vector<Bytes> sizes_for(Random& random, Bytes page) {
  std::vector<Bytes> sizes;
  for (std::int64_t count = random.between(1, 8); count > 0; --count) {
    const Bytes most = random.chance(0.5) ? page / 2 : page * 9;
    sizes.push_back(random.between(1, most / 64) * 64);
  }
  return sizes;
}

// An engine, its pages, and everybody who asks.
class Ground {
 public:
  Ground(Random& random, std::size_t card)
      : device_(card), space_(device_, tuning_for(random, device_.page())), oracle_(device_) {}

  ~Ground() { engine_.detach_arena(); }

  FakeDevice& device() { return device_; }
  Space& space() { return space_; }
  Engine& engine() { return engine_; }

  // As an adapter asks. False: there is no memory.
  bool request(Bytes bytes, Stream stream, std::uint64_t pattern, Held& held, Seen& seen) {
    const bool settled = engine_.settled();
    void* slot = engine_.allocate(static_cast<std::size_t>(bytes), stream);
    auto address = reinterpret_cast<Address>(slot);
    if (slot == nullptr) {
      address = space_.allocate(bytes, stream);
      if (address == 0) {
        ++seen.refused;
        return false;
      }
      (void)engine_.adopt(reinterpret_cast<void*>(address), static_cast<std::size_t>(bytes),
                          stream);
      ++seen.windows;
    } else {
      ++seen.slots;
      seen.settled += settled;
    }
    held = {{address, bytes}, stream, pattern};
    oracle_.lives(held.where);
    device_.fill(stream, held.where, pattern);
    return true;
  }

  void free(const Held& held) {
    device_.check(held.stream, held.where, held.pattern);
    oracle_.dies(held.where);
    if (engine_.release(reinterpret_cast<void*>(held.where.address))) return;
    require(space_.deallocate(held.where.address), "a block is not known");
  }

  // Of each stream one.
  void attach(const std::vector<RandomPlan>& plans, const Layout& layout, Seen& seen) {
    ++seen.retired;
    engine_.remove_plans();
    engine_.detach_arena();
    for (std::uint32_t stream = 0; stream < kStreams; ++stream) {
      const pgmo_arena arena = engine_.reserve_arena(space_, layout.bytes[stream], stream);
      require(arena.base != nullptr, "no addresses");
      engine_.add_arena(stream, layout.begins[stream], arena);
    }
    add_plans(plans);
  }

  void add_plans(const std::vector<RandomPlan>& plans) {
    static constexpr std::uint64_t kNumbers[] = {0, 1};
    for (const RandomPlan& plan : plans) {
      engine_.add_plan(plan.rows, {kNumbers, kStreams}, plan.arena, plan.alignment);
    }
    engine_.start_serving();
  }

  void finish() {
    device_.fail_one_in = 0;
    device_.captured_streams = 0;
    device_.is_capturing = false;
    engine_.remove_plans();
    engine_.detach_arena();
    device_.synchronize();
    space_.give_back(Bytes{1} << 40);  // records what has to be completed
    device_.synchronize();
    space_.give_back(Bytes{1} << 40);
    require_equal(device_.pages_created(), 0, "pages left at the end");
    require_equal(static_cast<std::uint64_t>(space_.meter().slots()), 0, "bytes in slots");
    require_equal(static_cast<std::uint64_t>(space_.meter().windows()), 0, "bytes in windows");
  }

 private:
  FakeDevice device_;
  Space space_;
  PhysicalOracle oracle_;
  Engine engine_;
};

struct Plans {
  std::vector<RandomPlan> all;
  Layout layout{};
  std::vector<Bytes> sizes;
};

Plans plans_for(Random& random, Bytes page, std::int64_t count) {
  PlanStyle style{.ticks = random.between(2, 60),
                  .alignment = 512,
                  .sizes = sizes_for(random, page),
                  .streams = random.chance(0.5) ? kStreams : 1,
                  .apart = true,
                  .varying = random.chance(0.5) ? 0.4 : 0.0,
                  .persistent = random.chance(0.5) ? 0.05 : 0.0,
                  .two_turns = random.chance(0.4) ? 0.04 : 0.0};
  Plans plans;
  for (; count > 0; --count) plans.all.push_back(random_plan(random, style));
  plans.layout = lay_out(random, plans.all, style);
  plans.sizes = style.sizes;
  return plans;
}

class Episode {
 public:
  Episode(std::uint64_t seed, std::uint64_t most_events, Seen& seen)
      : random_(seed),
        seen_(seen),
        most_events_(most_events),
        ground_(random_, static_cast<std::size_t>(random_.between(60, 700))),
        page_(ground_.device().page()),
        wildness_(random_.chance(0.4)   ? 0.0
                  : random_.chance(0.5) ? 0.1
                                        : 0.5),
        speed_(random_.between(0, 6)) {
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
    seen_.surrenders += ground_.space().statistics().surrenders;
    seen_.retracted += ground_.engine().statistics().counters.retracted_bytes;
    ground_.finish();
  }

 private:
  void replan() {
    plans_ = plans_for(random_, page_, random_.between(1, 3));
    ground_.attach(plans_.all, plans_.layout, seen_);
    there_ = plans_.all;
  }

  // A plan is followed until its pages are settled, and a little longer.
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
    for (Tick tick = 0; tick < ticks && whereabouts.event < most_events_; ++tick) {
      const PlannedRequest& row = plan.rows[static_cast<std::size_t>(tick)];
      while (!living_.empty() && living_.begin()->first <= now_ + tick) free_first();
      if (random_.chance(wildness_ / 4)) interfere();
      if (random_.chance(wildness_ / 3)) stranger(now_ + tick, ticks);
      if (random_.chance(wildness_ / 3)) continue;
      Bytes bytes = row.bytes;
      if (row.varying && random_.chance(0.3)) bytes = random_.between(1, row.bytes);
      if (row.varying && random_.chance(wildness_ / 2)) bytes += 512;
      Tick end = row.end;
      if (row.offset == kUnplanned) end = tick + 10 * ticks;
      if (random_.chance(wildness_ / 3)) end = tick + random_.between(1, 3 * ticks);
      request(bytes, row.stream_index, now_ + end);
    }
    now_ += ticks;
    if (!random_.chance(wildness_ / 5)) ground_.engine().end_iteration();
  }

  void stranger(Tick now, Tick ticks) {
    request(random_.between(1, page_ * (random_.chance(0.2) ? 60 : 4)),
            static_cast<Stream>(random_.between(0, kStreams - 1)),
            now + random_.between(1, 2 * ticks));
  }

  void request(Bytes bytes, Stream stream, Tick end) {
    ++whereabouts.event;
    bytes = (bytes + 63) / 64 * 64;  // the device writes words
    Held held;
    if (ground_.request(bytes, stream, next_pattern_++, held, seen_)) living_.emplace(end, held);
    work();
  }

  void free_first() {
    ++whereabouts.event;
    ground_.free(living_.begin()->second);
    living_.erase(living_.begin());
    work();
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
        held_stream_ = random_.between(-1, kStreams - 1);
        return;
      case 3:
        device.captured_streams = random_.chance(0.5) ? 0 : 1u << random_.between(0, kStreams - 1);
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

  // To some of those that the arenas were made for.
  void change_plans() {
    ground_.engine().remove_plans();
    there_ = plans_.all;
    while (there_.size() > 1 && random_.chance(0.6)) {
      there_.erase(there_.begin() + random_.between(0, std::ssize(there_) - 1));
    }
    ground_.add_plans(there_);
  }

  void work() {
    FakeDevice& device = ground_.device();
    for (std::int64_t steps = 0; steps < speed_; ++steps) {
      const std::int64_t stream = random_.between(0, kStreams - 1);
      if (stream != held_stream_) device.step(static_cast<Stream>(stream));
    }
    if (whereabouts.event % 64 == 0) {  // no program is far behind for ever
      for (Stream stream = 0; stream < kStreams; ++stream) {
        if (device.queued(stream) > 400) device.synchronize();
      }
    }
  }

  Random random_;
  Seen& seen_;
  std::uint64_t most_events_;
  Ground ground_;
  Bytes page_;
  double wildness_;
  std::int64_t speed_;
  std::int64_t held_stream_ = -1;
  Plans plans_;
  std::multimap<Tick, Held> living_;
  std::vector<RandomPlan> there_;  // of the plans, the engine's
  Tick now_ = 0;
  std::uint64_t next_pattern_ = 0x7654321;
};

// --- from several threads
// -------------------------------------------------------------------------

class Crowd {
 public:
  Crowd(std::uint64_t seed, std::uint64_t events, Seen& seen)
      : random_(seed), seen_(seen), events_(events), ground_(random_, 900) {
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
    Random random(number * 7919 + 1);
    std::vector<Held> living;
    const auto page = ground_.device().page();
    for (std::uint64_t event = 0; event < events_ / kThreads; ++event) {
      if (random.chance(living.size() > 20 ? 0.3 : 0.55)) {
        const Bytes bytes =
            random.chance(0.8) ? random.pick(plans_.sizes) : random.between(1, 40 * page / 64) * 64;
        Held held;
        const auto stream = static_cast<Stream>(random.between(0, kStreams - 1));
        if (ground_.request(bytes, stream, number << 48 | event, held, seen_)) {
          living.push_back(held);
        }
      } else if (!living.empty()) {
        ground_.free(living.back());
        living.pop_back();
      }
      if (number == 0 && random.chance(0.05)) ground_.engine().end_iteration();
      if (number == 0 && random.chance(0.001)) replan();
      if (random.chance(0.01)) ground_.space().give_back(random.between(1, 30) * page);
      for (int steps = 0; steps < 3; ++steps) {
        ground_.device().step(static_cast<Stream>(random.between(0, kStreams - 1)));
      }
    }
    for (const Held& one : living) ground_.free(one);
  }

  void replan() { ground_.attach(plans_.all, plans_.layout, seen_); }

  Random random_;
  Seen& seen_;
  std::uint64_t events_;
  Ground ground_;
  Plans plans_;
};

int attack(std::uint64_t seed, std::uint64_t events) {
  constexpr std::uint64_t kMostEvents = 6000;
  Seen seen;
  whereabouts = {seed, 0, 0};
  for (std::uint64_t done = 0; done < events; ++whereabouts.episode) {
    whereabouts.event = 0;
    const std::uint64_t most = std::min(kMostEvents, events - done);
    Episode(seed * 1'000'003 + whereabouts.episode, most, seen).run();
    done += most;
  }
  for (std::uint64_t round = 0; round < 4; ++round) Crowd(seed + round, events / 10, seen).run();
  if (events >= 100'000) {
    require(seen.slots > 0 && seen.settled > 0 && seen.windows > 0, "nothing was served");
    require(seen.refused > 0 && seen.retracted > 0, "nothing was refused");
    require(seen.surrenders > 0, "no plan was surrendered");
  }
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf(
      "seed %llu: %llu events, no violation; %llu slots (%llu settled), %llu in windows, %llu "
      "refused, %llu bytes retracted, %llu surrenders, %llu arenas\n",
      number(seed), number(events), number(seen.slots), number(seen.settled), number(seen.windows),
      number(seen.refused), number(seen.retracted), number(seen.surrenders), number(seen.retired));
  return 0;
}

}  // namespace
}  // namespace pgmo::test

int main(int argc, char** argv) {
  const auto [seed, events] = pgmo::test::read_arguments(argc, argv, 2'000'000);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they say more
  std::signal(SIGSEGV, [](int) { pgmo::test::violation("memory is used that is not there"); });
#endif
  return pgmo::test::attack(seed, events);
}

// Attack on replay: random plans, and programs that diverge from them.
//
//     plan      a b c d e f g h
//     program   a c b d d x   g | a b c | a b c ... twice | ...      | end of an iteration
//               reordered, duplicated, inserted, dropped, cut short, too long, outgrown; frees
//               early, late, iterations later; plans, arenas and modes changed in the middle;
//               arenas of single streams, some without; memory runs out
//
// Everything follows from --seed. The message of a violation has the seed, the episode and the
// event in the episode.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "arguments.hpp"
#include "client.hpp"
#include "coverage.hpp"
#include "living_blocks.hpp"
#include "perturbation.hpp"

namespace pgmo::test {
namespace {

class Episode {
 public:
  Episode(std::uint64_t seed, std::uint64_t most_events)
      : random_(seed),
        wildness_(random_.pick(kWildness)),
        client_(random_, random_.pick(kFailureRates)),
        most_events_(most_events) {}

  void run(Coverage& coverage) {
    serve();
    while (client_.events() < most_events_) {
      iterate(next_plan());
      client_.compare_statistics();
    }
    coverage = {.counters = client_.engine().statistics().counters,
                .events = client_.events(),
                .yields = client_.yields()};
    tear_down();
  }

 private:
  void make_plans() {
    plans_.clear();
    const std::int64_t count = random_.chance(0.5) ? 1 : random_.between(2, 4);
    PlanStyle style = random_style(random_);
    alignment_ = static_cast<std::uint64_t>(style.alignment);
    for (std::int64_t at = 0; at < count; ++at) {
      if (random_.chance(0.5)) style.ticks = random_.between(1, 90);
      plans_.push_back(random_plan(random_, style));
    }
    sizes_ = style.sizes;
    layout_ = lay_out(random_, plans_, style);
    if (random_.chance(0.5)) spill(random_, plans_, layout_);
  }

  void add_plans() {
    for (const RandomPlan& plan : plans_) {
      while (!client_.add_plan(plan)) {
      }
    }
    added_ = true;
  }

  std::uint64_t room() {
    Bytes most = 0;
    for (const RandomPlan& plan : plans_) most = std::max(most, plan.arena);
    return static_cast<std::uint64_t>(most + (random_.chance(0.5) ? 0 : random_.between(0, 4000)));
  }

  Offset any_offset() { return random_.between(0, static_cast<Bytes>(room())); }

  // Attach arenas. Some streams get none, as if the program had not used them yet.
  void attach() {
    while (client_.attached() && !client_.detach()) {
    }
    const auto spilled = static_cast<std::uint64_t>(layout_.spill);
    while (spilled != 0 && !client_.add_spill(layout_.spill, spilled, alignment_)) {
    }
    for (bool any = false; !any;) {
      for (std::uint32_t stream = 0; stream < kMostStreams; ++stream) {
        if (random_.chance(0.7)) any |= add_arena(stream);
      }
    }
  }

  bool add_arena(std::uint32_t stream) {
    return client_.add_arena(stream, layout_.begins[stream],
                             static_cast<std::uint64_t>(layout_.bytes[stream]), alignment_);
  }

  const RandomPlan& next_plan() {
    const auto count = static_cast<std::int64_t>(plans_.size());
    current_ = random_.chance(0.1) ? random_.between(0, count - 1) : (current_ + 1) % count;
    return plans_[static_cast<std::size_t>(current_)];
  }

  void iterate(RandomPlan plan) {  // a copy, because the plans may change meanwhile
    const Tick ticks = static_cast<Tick>(plan.rows.size());
    const bool twice = random_.chance(wildness_ / 4);
    const bool outgrown = random_.chance(0.01 + wildness_ / 4);
    Perturbation perturbation(random_, wildness_, sizes_, outgrown);
    for (int turn = 0; turn <= twice; ++turn) {
      for (const Step& step : perturbation.of(plan)) {
        free_until(base_tick_ + step.tick);
        if (random_.chance(wildness_ / 20)) interfere();
        const Block block = client_.request(step.bytes, step.stream);
        living_.emplace(base_tick_ + step.tick + step.lifetime, block);
      }
      base_tick_ += ticks;
    }
    if (!random_.chance(wildness_ / 10)) client_.end_iteration();
    if (random_.chance(wildness_ / 10)) client_.end_iteration();
    if (random_.chance(0.1)) add_any_arena();
    if (!client_.attached() && random_.chance(0.5)) serve();
  }

  void free_until(Tick tick) {
    while (!living_.empty() && living_.begin()->first <= tick) {
      client_.release(living_.begin()->second);
      living_.erase(living_.begin());
    }
  }

  void interfere() {
    switch (random_.between(0, 12)) {
      case 0:
        return client_.paused() ? client_.resume() : client_.pause();
      case 1:
        return client_.resume();
      case 2:
        return client_.record().active() ? client_.stop_recording() : client_.start_recording();
      case 3:
        return client_.record().compare(client_.engine());
      case 4:
      case 5:
        return serve();
      case 6:
        if (added_)
          client_.select_plan(static_cast<Engine::PlanId>(
              random_.between(0, static_cast<std::int64_t>(plans_.size()) - 1)));
        return;
      case 7:
      case 8:
        return change_arenas();
      case 9:
        if (random_.chance(0.3) && client_.remove_plans()) added_ = false;
        return;
      case 10:
        return client_.reset_peaks();
      case 11:
        return look_at_blocks();
      default:
        static_cast<void>(client_.engine().take_grown());
    }
  }

  void change_arenas() {
    switch (random_.between(0, 4)) {
      case 0:
        if (random_.chance(0.6)) client_.detach();
        return;
      case 1:
        return client_.yield_idle();
      case 2:
        if (added_) return serve_from_others();
        return;
      case 3:  // a spill arena anywhere, which the engine most likely refuses
        if (random_.chance(0.3)) {
          if (random_.chance(0.5)) client_.detach();
          static_cast<void>(client_.add_spill(any_offset(), any_size(random_, 5000), alignment_));
          return;
        }
        return add_arena_anywhere(static_cast<std::uint32_t>(random_.between(0, kMostStreams - 1)));
      default:
        add_any_arena();
    }
  }

  // Add an arena near the stream's slots, or anywhere.
  void add_arena_anywhere(std::uint32_t stream) {
    const bool near = random_.chance(0.5);
    const Bytes shift = std::min<Bytes>(random_.between(0, 8), layout_.begins[stream]);
    const Offset begin = near ? layout_.begins[stream] - shift : any_offset();
    const Bytes bytes = near ? layout_.bytes[stream] + shift : any_size(random_, 5000);
    client_.add_arena(stream, begin, static_cast<std::uint64_t>(bytes), alignment_);
  }

  // Add an arena of any stream. The engine refuses a second arena of a stream.
  void add_any_arena() {
    add_arena(static_cast<std::uint32_t>(random_.between(0, kMostStreams - 1)));
  }

  void serve_from_others() {
    attach();
    client_.start_serving();
  }

  void look_at_blocks() {
    if (random_.chance(0.5)) return compare_living(client_.engine(), living_);
    for (auto at = living_.begin(); at != living_.end() && random_.chance(0.8); ++at) {
      client_.share(at->second,
                    static_cast<std::uint32_t>(random_.between(0, Client::kUnknownStream)));
    }
  }

  // Make the engine serve, from any state.
  void serve() {
    if (!added_) make_plans();
    if (!client_.attached() || !added_) attach();
    if (!added_) add_plans();
    client_.start_serving();
  }

  void tear_down() {
    if (client_.paused()) client_.resume();
    if (client_.record().active()) client_.stop_recording();
    while (!client_.detach()) {
    }
    client_.compare_statistics();
    compare_living(client_.engine(), living_);
    for (const auto& [due, block] : living_) client_.release(block);
    client_.compare_end();
  }

  static inline const std::vector<double> kWildness = {0, 0.002, 0.02, 0.1, 0.4};
  static inline const std::vector<double> kFailureRates = {0, 0, 0.01, 0.2};

  Random random_;
  double wildness_;
  Client client_;
  std::uint64_t most_events_;
  std::vector<RandomPlan> plans_;
  std::vector<Bytes> sizes_;
  Layout layout_{};
  std::uint64_t alignment_ = 1;
  std::int64_t current_ = 0;
  bool added_ = false;
  Tick base_tick_ = 0;  // tick at which the iteration began
  LivingBlocks living_;
};

int attack(std::uint64_t seed, std::uint64_t events) {
  constexpr std::uint64_t kEventsPerEpisode = 8000;
  Coverage sum;
  std::uint64_t episodes = 0;
  whereabouts.seed = seed;
  for (; sum.events < events; ++episodes) {
    whereabouts.episode = episodes;
    whereabouts.event = 0;
    Coverage one;
    Episode(seed * 1'000'003 + episodes, kEventsPerEpisode).run(one);
    sum.add(one);
  }
  const auto number = [](std::uint64_t count) { return static_cast<unsigned long long>(count); };
  std::printf("seed %llu: %llu events in %llu episodes, no violation\n", number(seed),
              number(sum.events), number(episodes));
  sum.print();
  if (sum.complete()) return 0;
  std::printf("the attack did not reach every kind of hit and miss\n");
  return 1;
}

}  // namespace
}  // namespace pgmo::test

int main(int argc, char** argv) {
  const auto [seed, events] = pgmo::test::read_arguments(argc, argv, 12'000'000);
  return pgmo::test::attack(seed, events);
}

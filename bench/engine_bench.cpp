// Measures the engine through its C interface; see engine.py.
//
//     engine_bench REPETITIONS PAIRS WHAT:BLOCKS[:BYTES] ...
//
// Prints a line per repetition: WHAT BLOCKS BYTES NANOSECONDS, the last per pair. A repetition has
// about PAIRS pairs. All blocks have BYTES bytes; with 0, they have the sizes of a network.
//
//     forward    a₀ t t a₁ t t t a₂ t ...       activations stay, temporaries are freed soon
//     backward   ... t g t a₂ t g a₁ t a₀       activations are freed in reverse order
//     (gradients are freed in the next iteration: they wrap)
//
// WHAT: replay   one iteration after another, every request from its slot
//       record   blocks of the framework, adopted and released in the engine's first recording
//       paged    like replay, in an arena whose pages are all mapped
//       empty    the loop alone, which calls functions that do nothing

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "pages/space.hpp"

namespace pgmo {
namespace {

constexpr Bytes kAlignment = 64;
constexpr std::uint64_t kStream = 0;

// Bytes of blocks in the order of their requests, and the tick at which each block ends.
struct Sequence {
  std::vector<std::uint32_t> bytes;
  std::vector<Tick> end;
};

// Returns a step of a network of layers. At its peak, a few hundred activations are alive in a
// short step, and a few thousand in a long one.
Sequence training_step(std::uint32_t blocks, std::uint32_t bytes) {
  std::mt19937 engine(1);
  const auto random = [&engine] { return static_cast<std::uint32_t>(engine()); };
  const auto live = static_cast<Tick>(8 * std::sqrt(blocks));
  std::vector<std::uint32_t> sizes;
  for (int at = 0; at < 60; ++at) {
    sizes.push_back((1u << (6 + random() % 15)) + 64 * (random() % 40));
  }
  Sequence sequence{std::vector<std::uint32_t>(blocks), std::vector<Tick>(blocks)};
  const Tick ticks = blocks;
  const Tick half = ticks / 2;
  const Tick stride = std::max<Tick>(2, half / live);
  for (Tick tick = 0; tick < ticks; ++tick) {
    const auto row = static_cast<std::size_t>(tick);
    // Sizes repeat, as in a network of equal blocks.
    const std::uint32_t own = sizes[static_cast<std::size_t>(tick % 240) * 7 % sizes.size()];
    sequence.bytes[row] = bytes != 0 ? bytes : own;
    sequence.end[row] = tick + 1 + static_cast<Tick>(random() % 4);
    if (tick % stride == 0) {
      if (tick < half) sequence.end[row] = std::min<Tick>(ticks, ticks - tick + random() % 3);
      if (tick >= half && random() % 8 == 0) sequence.end[row] = ticks + 1 + tick % 50;
    }
  }
  return sequence;
}

// A device whose calls cost nothing and always succeed: addresses and pages are numbers.
class FreeDevice final : public pages::DeviceDriver {
 public:
  pages::Address reserve(Bytes bytes) noexcept override {
    const pages::Address address = next_address_;
    next_address_ += static_cast<pages::Address>(bytes);
    return address;
  }
  bool create(pages::Handle& page) noexcept override {
    page = ++pages_;
    return true;
  }
  void release(pages::Handle) noexcept override {}
  bool map(pages::Address, pages::Handle) noexcept override { return true; }
  bool grant(pages::Address, Bytes) noexcept override { return true; }
  void unmap(pages::Address, Bytes) noexcept override {}
  pages::Event record(pages::Stream) noexcept override { return 1; }
  bool completed(pages::Event) noexcept override { return true; }
  void discard(pages::Event) noexcept override {}
  bool wait(pages::Stream, pages::Event) noexcept override { return true; }
  bool capturing() noexcept override { return false; }

 private:
  pages::Address next_address_ = pages::Address{1} << 45;
  pages::Handle pages_ = 0;
};

// Result of first fit in the order of requests: an offset per block, and the size of the arena.
struct Packed {
  std::vector<Offset> offset;
  Bytes arena;
};

class Gaps {
 public:
  Offset take(Bytes bytes) {
    for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
      if (gap->second < bytes) continue;
      const Offset offset = gap->first;
      const Bytes rest = gap->second - bytes;
      gaps_.erase(gap);
      if (rest > 0) gaps_.emplace(offset + bytes, rest);
      return offset;
    }
    const Offset offset = top_;
    top_ += bytes;
    return offset;
  }
  void give(Offset offset, Bytes bytes) {
    auto after = gaps_.lower_bound(offset);
    if (after != gaps_.end() && after->first == offset + bytes) {
      bytes += after->second;
      after = gaps_.erase(after);
    }
    if (after != gaps_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == offset) {
        before->second += bytes;
        return;
      }
    }
    gaps_.emplace(offset, bytes);
  }
  Bytes top() const { return top_; }

 private:
  std::map<Offset, Bytes> gaps_;
  Bytes top_ = 0;
};

// Blocks in the order of their frees. Blocks [first[t], first[t + 1]) are freed before request t.
struct Frees {
  std::vector<std::uint32_t> first;
  std::vector<std::uint32_t> blocks;
};

Frees frees_of(const Sequence& sequence) {
  const std::size_t ticks = sequence.end.size();
  Frees frees{std::vector<std::uint32_t>(ticks + 2), std::vector<std::uint32_t>(ticks)};
  for (const Tick end : sequence.end) ++frees.first[static_cast<std::size_t>(end) % ticks + 2];
  for (std::size_t tick = 1; tick < frees.first.size(); ++tick) {
    frees.first[tick] += frees.first[tick - 1];
  }
  for (std::size_t block = ticks; block-- > 0;) {  // of one tick, the youngest block first
    const std::size_t tick = static_cast<std::size_t>(sequence.end[block]) % ticks;
    frees.blocks[frees.first[tick + 1]++] = static_cast<std::uint32_t>(block);
  }
  return frees;
}

Bytes rounded(std::uint32_t bytes) {
  return (static_cast<Bytes>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
}

// Packs by first fit. Wrapping blocks get places of their own, which is simple, but wastes memory.
Packed pack(const Sequence& sequence, const Frees& frees) {
  Packed packed{std::vector<Offset>(sequence.bytes.size()), 0};
  const Tick ticks = static_cast<Tick>(sequence.bytes.size());
  Gaps gaps;
  const auto wraps = [&](std::size_t block) { return sequence.end[block] >= ticks; };
  for (std::size_t block = 0; block < packed.offset.size(); ++block) {
    if (wraps(block)) packed.offset[block] = gaps.take(rounded(sequence.bytes[block]));
  }
  for (std::size_t tick = 0; tick < packed.offset.size(); ++tick) {
    for (std::uint32_t at = frees.first[tick]; at < frees.first[tick + 1]; ++at) {
      const std::uint32_t block = frees.blocks[at];
      if (!wraps(block)) gaps.give(packed.offset[block], rounded(sequence.bytes[block]));
    }
    if (!wraps(tick)) packed.offset[tick] = gaps.take(rounded(sequence.bytes[tick]));
  }
  packed.arena = gaps.top();
  return packed;
}

struct Replay {
  FreeDevice device;
  pages::Space space{device};
  Engine engine;
  const pgmo_engine_api* api = engine_api();
  pgmo_engine* handle = reinterpret_cast<pgmo_engine*>(&engine);

  Replay(const Sequence& sequence, const Packed& packed, bool paged) {
    std::vector<PlannedRequest> rows(packed.offset.size());
    for (std::size_t row = 0; row < rows.size(); ++row) {
      rows[row] = {.bytes = sequence.bytes[row],
                   .stream_index = 0,
                   .varying = false,
                   .end = sequence.end[row],
                   .offset = packed.offset[row],
                   .alternate = kUnplanned};
    }
    // The pool then has a page for each place of the arena, also for places that are never live at
    // the same time.
    if (paged) space.deallocate(space.allocate(packed.arena, kStream));
    // The benchmark never writes to the blocks, so the arena needs no memory behind it.
    engine.add_arena(kStream, 0,
                     paged ? engine.reserve_arena(space, packed.arena, kStream)
                           : pgmo_arena{reinterpret_cast<void*>(std::uintptr_t{1} << 44),
                                        static_cast<std::size_t>(packed.arena), nullptr, nullptr});
    engine.add_plan(rows, {&kStream, 1}, packed.arena, kAlignment);
    engine.start_serving();
  }
};

// Functions that allocate and release a block, and their first argument.
struct Way {
  void* (*allocate)(void* self, std::size_t bytes, std::uint32_t block);
  void (*release)(void* self, void* memory);
  void* self;
};

void* replay_allocate(void* self, std::size_t bytes, std::uint32_t) {
  auto* replay = static_cast<Replay*>(self);
  return replay->api->allocate(replay->handle, bytes, kStream);
}
void replay_release(void* self, void* memory) {
  auto* replay = static_cast<Replay*>(self);
  replay->api->release(replay->handle, memory);
}

// Adopts a block of the framework; addresses are 4 KiB apart.
void* adopt_allocate(void* self, std::size_t bytes, std::uint32_t block) {
  auto* replay = static_cast<Replay*>(self);
  void* const memory = reinterpret_cast<void*>((std::uintptr_t{1} << 40) + 4096ull * block);
  replay->api->adopt(replay->handle, memory, bytes, kStream, 0);
  return memory;
}

void* empty_allocate(void*, std::size_t, std::uint32_t block) {
  return reinterpret_cast<void*>(std::uintptr_t{block} + 1);
}
void empty_release(void*, void*) {}

// Runs one iteration. Wrapping blocks are freed in the next iteration.
void iterate(const Way& way, const Sequence& sequence, const Frees& frees,
             std::vector<void*>& memory) {
  const auto ticks = static_cast<std::uint32_t>(sequence.bytes.size());
  for (std::uint32_t tick = 0; tick < ticks; ++tick) {
    for (std::uint32_t at = frees.first[tick]; at < frees.first[tick + 1]; ++at) {
      void*& block = memory[frees.blocks[at]];
      if (block != nullptr) way.release(way.self, block);
    }
    memory[tick] = way.allocate(way.self, sequence.bytes[tick], tick);
  }
}

// Returns the calling thread's processor time in seconds.
double seconds_now() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class Measurement {
 public:
  Measurement(std::string what, std::uint32_t blocks, std::uint32_t bytes)
      : what_(std::move(what)),
        bytes_(bytes),
        sequence_(training_step(blocks, bytes)),
        frees_(frees_of(sequence_)),
        packed_(pack(sequence_, frees_)),
        memory_(blocks, nullptr) {
    if (what_ != "record") replay_ = std::make_unique<Replay>(sequence_, packed_, is_paged());
  }

  // Runs a repetition; returns nanoseconds per pair.
  double repeat(std::uint32_t pairs) {
    const auto blocks = static_cast<std::uint32_t>(memory_.size());
    const std::uint32_t iterations = std::max(1u, pairs / blocks);
    double seconds = 0;
    for (std::uint32_t iteration = 0; iteration < iterations; ++iteration) {
      if (what_ == "record") start_recording();
      const Way way = this->way();
      const double begin = seconds_now();
      iterate(way, sequence_, frees_, memory_);
      seconds += seconds_now() - begin;
      if (replay_) replay_->engine.end_iteration();
    }
    if (what_ == "replay" || is_paged()) require_all_hits();
    return 1e9 * seconds / iterations / blocks;
  }

  const std::string& what() const { return what_; }
  std::uint32_t bytes() const { return bytes_; }
  std::size_t blocks() const { return memory_.size(); }

 private:
  // Creates an engine for each iteration, because the first recording is measured, in which
  // buffers grow.
  void start_recording() {
    replay_ = std::make_unique<Replay>(sequence_, packed_, false);
    replay_->engine.remove_plans();
    replay_->engine.start_recording();
    std::fill(memory_.begin(), memory_.end(), nullptr);
  }

  Way way() {
    if (what_ == "empty") return {empty_allocate, empty_release, nullptr};
    const bool planned = what_ == "replay" || is_paged();
    return {planned ? replay_allocate : adopt_allocate, replay_release, replay_.get()};
  }

  bool is_paged() const { return what_ == "paged"; }

  void require_all_hits() {
    const Counters counters = replay_->engine.statistics().counters;
    if (counters.hits == counters.requests && counters.hits > 0) return;
    std::fprintf(stderr, "slots served only %llu of %llu requests\n",
                 static_cast<unsigned long long>(counters.hits),
                 static_cast<unsigned long long>(counters.requests));
    std::exit(1);
  }

  std::string what_;
  std::uint32_t bytes_;
  Sequence sequence_;
  Frees frees_;
  Packed packed_;
  std::vector<void*> memory_;
  std::unique_ptr<Replay> replay_;
};

// Runs all measurements in turns, so that a busy moment of the machine affects each of them.
int run(int repetitions, std::uint32_t pairs, int count, char** names) {
  std::vector<std::unique_ptr<Measurement>> all;
  for (int at = 0; at < count; ++at) {
    const std::string name = names[at];
    const std::size_t colon = name.find(':');
    const std::size_t second = name.find(':', colon + 1);
    const auto number = [&](std::size_t from) {
      return static_cast<std::uint32_t>(std::stoul(name.substr(from)));
    };
    const std::uint32_t bytes = second == std::string::npos ? 0 : number(second + 1);
    all.push_back(std::make_unique<Measurement>(name.substr(0, colon), number(colon + 1), bytes));
  }
  for (int repetition = -1; repetition < repetitions; ++repetition) {  // the first one is a warm-up
    for (const auto& one : all) {
      const double nanoseconds = one->repeat(pairs);
      if (repetition < 0) continue;
      std::printf("%s %zu %u %.3f\n", one->what().c_str(), one->blocks(), one->bytes(),
                  nanoseconds);
    }
  }
  return 0;
}

}  // namespace
}  // namespace pgmo

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: engine_bench REPETITIONS PAIRS WHAT:BLOCKS[:BYTES] ...\n");
    return 2;
  }
  const auto pairs = static_cast<std::uint32_t>(std::atoi(argv[2]));
  return pgmo::run(std::atoi(argv[1]), pairs, argc - 3, argv + 3);
}

// What guests are hosted for, as the client of an engine knows it.
//
//     refused ──▶ the framework, up to 1/256 of the arenas' bytes in each iteration: strays
//         └─────▶ a gap of the arena, from then on: guests
//
// Requests that the plan leaves out because they outlive their iteration are neither.

#pragma once

#include <cstdint>

#include "engine/engine.hpp"
#include "ground.hpp"
#include "oracle.hpp"

namespace pgmo::test {

class Strays {
 public:
  static constexpr std::uint64_t kNever = 0;

  void host(std::uint64_t alignment) { alignment_ = alignment; }
  bool hosting() const { return alignment_ != 0; }
  std::uint64_t alignment() const { return alignment_; }

  void step() {
    ++iteration_;
    bytes_ = so_far_ = 0;
  }

  // Around a request: what became of it.
  struct Fate {
    bool counted;
    bool guest;
    bool persistent;
    bool declined;
  };
  void before(Engine& engine) { counters_ = engine.statistics().counters; }
  Fate after(Engine& engine) const {
    const Counters now = engine.statistics().counters;
    constexpr int kPersistent = static_cast<int>(Miss::kPersistent);
    return {now.requests != counters_.requests, now.guests != counters_.guests,
            now.misses[kPersistent] != counters_.misses[kPersistent],
            now.declined != counters_.declined};
  }

  void check_guest(const Fate& fate, std::uint64_t bytes, const Oracle& oracle) const {
    require(hosting(), "a guest is hosted unasked");
    require(!fate.persistent, "a guest that lives for good");
    require(!is_few(bytes, oracle), "a guest, while the framework has its share not yet");
  }
  void check_refused(const Fate& fate, std::uint64_t bytes, std::uint32_t stream,
                     const Ground& ground, const Oracle& oracle) const {
    if (!hosting() || fate.persistent || is_few(bytes, oracle)) return;
    if (fate.declined) {
      require(2 * bytes_ > so_far_, "a guest is declined although such blocks die");
      return;
    }
    require(!ground.has_gap(bytes, stream, alignment_), "a gap is left empty");
  }

  // The iteration that a block with the framework strays in.
  std::uint64_t strays(std::uint64_t bytes) {
    bytes_ += bytes;
    so_far_ += bytes;
    return iteration_;
  }
  void dies(std::uint64_t iteration, std::uint64_t bytes) {
    if (iteration == iteration_) bytes_ -= bytes;
  }

 private:
  bool is_few(std::uint64_t bytes, const Oracle& oracle) const {
    const std::uint64_t arenas = oracle.bytes(Oracle::kArena);
    return bytes_ + bytes <= arenas / 256 || bytes <= arenas >> 20;
  }

  std::uint64_t alignment_ = 0;
  std::uint64_t iteration_ = 1;
  std::uint64_t bytes_ = 0;   // alive
  std::uint64_t so_far_ = 0;  // and those that have died
  Counters counters_;
};

}  // namespace pgmo::test

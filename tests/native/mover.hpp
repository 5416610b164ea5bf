// What a session does between two iterations: it asks what is alive and moves some of it.
//
//     alive      framework's [a]   slot [b]   late [c]   region [d]
//                   │                           │
//                   ▼                           ▼
//     moved to   its own slot                  a region         first the new place, then the free
//
// The engine's list has to agree with the account, block by block.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "client.hpp"

namespace pgmo::test {

using LivingBlocks = std::multimap<Tick, Block>;  // by the tick at which they die

class Mover {
 public:
  Mover(Random& random, Client& client) : random_(random), client_(client) {}

  std::uint64_t resettled() const { return resettled_; }
  std::uint64_t placed() const { return placed_; }

  void compare(const LivingBlocks& blocks) { match(blocks.begin(), blocks.end()); }

  void move(LivingBlocks& blocks) {
    for (const auto& [one, at] : match(blocks.begin(), blocks.end())) {
      if (one.kind == Living::kForeign && one.plan == client_.engine().selected_plan()) {
        const std::uint64_t bytes = random_.chance(0.9) ? at->second.bytes : at->second.bytes + 1;
        if (!random_.chance(0.8)) continue;
        if (const auto moved = client_.resettle(one.request, bytes)) {
          ++resettled_;
          replace(at->second, *moved);
          continue;
        }
      }
      if (random_.chance(0.1)) place(at->second);
    }
  }

  // At any time, for any request: the engine has to see whether that is safe.
  std::optional<Block> settle_a_stranger() {
    if (client_.plans().empty()) return std::nullopt;
    const RandomPlan& plan = client_.plans().at(client_.engine().selected_plan());
    const auto last = static_cast<std::int64_t>(plan.rows.size()) - 1;
    const auto request = static_cast<std::size_t>(random_.between(0, last));
    const Bytes bytes = plan.rows[request].bytes;
    return client_.resettle(
        static_cast<std::uint32_t>(request),
        static_cast<std::uint64_t>(random_.chance(0.8) ? bytes : random_.between(1, 2 * bytes)));
  }

 private:
  template <typename Iterator>
  std::vector<std::pair<Living, Iterator>> match(Iterator begin, Iterator end) {
    std::unordered_map<std::uintptr_t, Iterator> known;
    for (Iterator at = begin; at != end; ++at) {
      if (at->second.known()) known.emplace(at->second.address, at);
    }
    std::vector<std::pair<Living, Iterator>> pairs;
    for (const Living& one : client_.engine().living()) {
      const auto found = known.find(one.address);
      require(found != known.end(), "a block is said to live that does not, or is told twice");
      compare(one, found->second->second);
      pairs.emplace_back(one, found->second);
      known.erase(found);
    }
    require_equal(known.size(), 0, "living blocks that are not told");
    return pairs;
  }

  void compare(const Living& one, const Block& block) {
    require_equal(static_cast<std::uint64_t>(one.bytes), block.bytes, "a living block's bytes");
    constexpr Home kHomes[] = {Home::kFramework, Home::kArena, Home::kArena, Home::kRegion};
    require(one.kind < std::size(kHomes) && kHomes[one.kind] == block.home,
            "a living block is not of the kind that is told");
    const ExpectedRecord& record = client_.record();
    if (record.complete() && record.epoch() > 0) {
      const bool recorded = block.epoch == record.epoch();
      require_equal(one.block, recorded ? block.record : Recorder::kNoBlock, "its number");
    }
    require((one.plan == Living::kNone) == (one.request == Living::kNone),
            "a plan without a request");
    if (one.plan == Living::kNone) {
      require(one.kind != Living::kSlot, "a slot without a request");
      return;
    }
    require(one.kind == Living::kForeign || one.kind == Living::kSlot,
            "a request of a block that no plan vouches for");
    require(block.generation == client_.generation() && one.plan < client_.plans().size(),
            "a living block's plan is gone");
    const RandomPlan& plan = client_.plans()[one.plan];
    require(one.request < plan.rows.size(), "a living block's request is in no plan");
    const PlannedRequest& row = plan.rows[one.request];
    require(row.stream_index == block.stream, "a living block's request is of another stream");
    if (one.kind == Living::kForeign) {
      require(row.varying || row.bytes == one.bytes, "a living block is not what was requested");
    } else {
      require_equal(one.plan, client_.engine().selected_plan(), "the plan of a slot");
      const Ground& ground = client_.ground();
      require(
          row.bytes >= one.bytes && (one.address == ground.address(block.stream, row.offset) ||
                                     one.address == ground.address(block.stream, row.alternate)),
          "a slot is not its request's");
    }
  }

  // Its place in some region, behind what was put there before or anywhere.
  void place(Block& block) {
    auto& regions = client_.ground().regions();
    if (regions.empty()) return;
    const KnownRegion region = random_.pick(regions);
    Offset offset = random_.between(0, static_cast<Bytes>(region.bytes));
    if (random_.chance(0.5)) offset -= offset % 512;
    if (const auto moved = client_.place(region, offset, block)) {
      ++placed_;
      replace(block, *moved);
    }
  }

  void replace(Block& block, const Block& moved) {
    client_.release(block);
    block = moved;
  }

  Random& random_;
  Client& client_;
  std::uint64_t resettled_ = 0;
  std::uint64_t placed_ = 0;
};

}  // namespace pgmo::test

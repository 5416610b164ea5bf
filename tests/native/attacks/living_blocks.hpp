// The live blocks, as the attack knows them. The engine's list must agree, block by block.
//
//     alive      framework's [a]   slot [b]   late [c]

#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "client.hpp"

namespace pgmo::test {

using LivingBlocks = std::multimap<Tick, Block>;  // by the tick at which they are freed

inline void compare_living(Engine& engine, const LivingBlocks& blocks) {
  std::unordered_map<std::uintptr_t, const Block*> known;
  for (const auto& [due, block] : blocks) {
    if (block.known()) known.emplace(block.address, &block);
  }
  for (const Living& one : engine.living()) {
    const auto found = known.find(one.address);
    require(found != known.end(), "a block that is not live is listed, or a block is listed twice");
    const Block& block = *found->second;
    require_equal(static_cast<std::uint64_t>(one.bytes), block.bytes, "a living block's bytes");
    require(one.kind <= Living::kLate && (one.kind != Living::kForeign) == block.ours,
            "a living block is listed with another kind");
    known.erase(found);
  }
  require_equal(known.size(), 0, "living blocks that are not listed");
}

}  // namespace pgmo::test

// Short forms for the rows of a plan.

#pragma once

#include "engine/replay/replay_plan.hpp"

namespace pgmo::test {

inline PlannedRequest slot(Bytes bytes, Tick end, Offset offset, std::uint32_t stream = 0) {
  return {.bytes = bytes,
          .stream_index = stream,
          .varying = false,
          .end = end,
          .offset = offset,
          .alternate = kUnplanned};
}

inline PlannedRequest varying(Bytes bytes, Tick end, Offset offset, std::uint32_t stream = 0) {
  PlannedRequest row = slot(bytes, end, offset, stream);
  row.varying = true;
  return row;
}

inline PlannedRequest persistent(Bytes bytes) {
  return slot(bytes, -1, kUnplanned);
}

inline PlannedRequest two_turns(Bytes bytes, Tick end, Offset offset, Offset alternate,
                                std::uint32_t stream = 0) {
  PlannedRequest row = slot(bytes, end, offset, stream);
  row.alternate = alternate;
  return row;
}

}  // namespace pgmo::test

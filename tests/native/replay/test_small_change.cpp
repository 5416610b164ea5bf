// Small requests among tensors of varying sizes: as many as a batch has samples, each its own.

#include <initializer_list>
#include <optional>
#include <vector>

#include "check.hpp"
#include "replayer_fixture.hpp"
#include "rows.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

// Requests of any size, each of a family of its own, 200,000 bytes from the next one.
struct Serving {
  explicit Serving(std::initializer_list<Bytes> sizes) {
    std::vector<PlannedRequest> rows;
    for (const Bytes bytes : sizes) {
      rows.push_back(slot(bytes, 3, static_cast<Offset>(200'000 * rows.size())));
      rows.back().varying = true;
      rows.back().family = static_cast<std::uint32_t>(rows.size());
    }
    replayer.emplace(ReplayPlan(rows, 1'000'000, 1), surroundings);
  }

  Offset operator()(Bytes bytes) { return replayer->serve(make_key(bytes, 0)); }

  Surroundings surroundings;
  std::optional<Replayer> replayer;
};

}  // namespace

// Where samples become tensors before they are a batch, sizes are each sample's own, and there may
// be more of them or fewer.
TEST(a_tensor_tells_that_small_change_is_over) {
  std::vector<PlannedRequest> rows;
  const auto add = [&](Bytes bytes, bool varying) {
    rows.push_back(slot(bytes, 9, static_cast<Offset>(100'000 * rows.size())));
    rows.back().varying = varying;
    rows.back().family = static_cast<std::uint32_t>(rows.size());
  };
  for (int sample = 0; sample < 4; ++sample) add(400, true);
  for (int tensor = 0; tensor < 4; ++tensor) add(80'000, true);
  add(30'000, true);
  Surroundings surroundings;
  Replayer replayer(ReplayPlan(rows, 1'000'000, 1), surroundings);
  const auto serve = [&](Bytes bytes) { return replayer.serve(make_key(bytes, 0)); };
  serve(300);
  serve(900);  // too large, and it says nothing of the others
  CHECK(!replayer.outgrown());
  CHECK_EQ(replayer.too_large(), kNoSlot);
  CHECK_EQ(serve(40'000), 400'000);  // two samples fewer
  CHECK_EQ(serve(41'000), 500'000);
  CHECK_EQ(serve(42'000), 600'000);
  CHECK_EQ(serve(43'000), 700'000);
}

// What was too large before it has nothing to do with it.
TEST(small_change_that_is_too_large_forgets_an_earlier_request_that_was) {
  Serving serve({160'000, 400, 400});
  CHECK_EQ(serve(170'000), kUnplanned);
  CHECK_EQ(serve.replayer->too_large(), SlotIndex{0});
  CHECK_EQ(serve(900), kUnplanned);
  CHECK_EQ(serve.replayer->too_large(), kNoSlot);
  CHECK_EQ(serve.replayer->take_grown().size(), std::size_t{2});
}

TEST(no_tensor_is_planned_for_small_change_at_the_end) {
  Serving serve({160'000, 400, 400});
  CHECK_EQ(serve(120'000), 0);
  CHECK_EQ(serve(90'000), kUnplanned);
  CHECK(!serve.replayer->has_grown());
  CHECK_EQ(serve(300), 200'000);
  CHECK_EQ(serve(200), 400'000);
}

TEST(small_change_takes_no_tensors_slot) {
  Serving serve({400, 80'000, 90'000});
  CHECK_EQ(serve(300), 0);
  CHECK_EQ(serve(200), kUnplanned);  // a sample more
  CHECK_EQ(serve(500), kUnplanned);
  CHECK_EQ(serve(60'000), 200'000);
  CHECK_EQ(serve(70'000), 400'000);
}

// Two in a row contradict what is known; the first of them was the one under the cursor.
TEST(a_micro_batch_of_another_length_loses_no_place) {
  std::vector<PlannedRequest> rows;
  for (int row = 0; row < 5; ++row) {
    rows.push_back(slot(80'000, 5, static_cast<Offset>(100'000 * row)));
    rows.back().varying = true;
  }
  Surroundings surroundings;
  Replayer replayer(ReplayPlan(rows, 1'000'000, 1), surroundings);
  const auto serve = [&](Bytes bytes) { return replayer.serve(make_key(bytes, 0)); };
  CHECK_EQ(serve(40'000), 0);
  CHECK_EQ(serve(40'000), 100'000);
  CHECK_EQ(serve(70'000), kUnplanned);
  CHECK_EQ(serve(70'000), 300'000);
  CHECK_EQ(serve(70'000), 400'000);
}

TEST(what_grows_with_the_square_has_its_slot_at_a_sixth_of_the_length) {
  std::vector<PlannedRequest> rows;
  for (const Bytes bytes : {Bytes{6'000'000}, Bytes{18'000'000}, Bytes{3'000'000}}) {
    rows.push_back(slot(bytes, 3, static_cast<Offset>(20'000'000 * rows.size())));
    rows.back().varying = rows.size() < 3;
    rows.back().family = static_cast<std::uint32_t>(rows.size());
  }
  Surroundings surroundings;
  Replayer replayer(ReplayPlan(rows, 70'000'000, 1), surroundings);
  const auto serve = [&](Bytes bytes) { return replayer.serve(make_key(bytes, 0)); };
  CHECK_EQ(serve(1'000'000), 0);
  CHECK_EQ(serve(500'000), 20'000'000);
  CHECK_EQ(serve(3'000'000), 40'000'000);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}

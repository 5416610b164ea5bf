// Tests of pools of graphs: which pages they share, and which they do not.

#include "adapters/cuda/graphs/chains.hpp"
#include "check.hpp"
#include "graphs/lagging_memory.hpp"
#include "random.hpp"

namespace pgmo::test {
namespace {

constexpr std::size_t kPage = LaggingMemory::kPage;

struct Fixture {
  // Capture a graph with a temporary of four pages and a result of one page.
  void capture(std::uint64_t pool) {
    const graphs::PoolId id{0, pool};
    chains.begin(id, pool, {});
    (void)chains.allocate(id, 4 * kPage);
    const graphs::Address result = chains.allocate(id, kPage);
    CHECK(chains.end(id, {{result, kPage}}));
  }

  // Lend pages. Retry, because the device sometimes refuses to wait, as if another thread were
  // capturing.
  std::size_t lend() {
    for (int tries = 0; tries < 20; ++tries) {
      if (const std::size_t bytes = chains.lend(); bytes != 0) return bytes / kPage;
    }
    return 0;
  }

  std::size_t held() { return chains.figures().held / kPage; }

  Random random{1};
  LaggingMemory memory{random, 100};
  graphs::Chains chains{memory, kPage};
};

TEST(temporaries_share_pages_and_results_do_not) {
  Fixture all;
  all.capture(1);
  CHECK_EQ(all.held(), 5u);
  all.capture(2);
  CHECK_EQ(all.held(), 6u);
  CHECK(all.chains.before_replay(1, 0));
  CHECK(all.chains.before_replay(2, 0));
  CHECK_EQ(all.held(), 6u);
}

TEST(a_result_takes_the_page_of_a_temporary) {
  Fixture all;
  all.capture(1);
  const graphs::PoolId id{0, 2};
  all.chains.begin(id, 2, {});
  const graphs::Address result = all.chains.allocate(id, kPage);  // on a page of the first graph
  (void)all.chains.allocate(id, 4 * kPage);
  CHECK(all.chains.end(id, {{result, kPage}}));
  CHECK_EQ(all.held(), 6u);
  CHECK(all.chains.before_replay(2, 0));
  CHECK_EQ(all.chains.figures().moves, 1u);
  CHECK_EQ(all.held(), 6u);
}

TEST(temporaries_gather_on_the_oldest_pages_while_other_chains_are_open) {
  constexpr std::uint64_t kChains = 6;
  Fixture all;
  for (std::uint64_t pool = 1; pool <= kChains; ++pool) {
    const graphs::PoolId id{0, pool};
    all.chains.begin(id, 2 * pool, {});
    const graphs::LiveBlock activation{all.chains.allocate(id, kPage), kPage};
    (void)all.chains.allocate(id, 2 * kPage);
    const graphs::LiveBlock result{all.chains.allocate(id, 2 * kPage), 2 * kPage};
    (void)all.chains.allocate(id, 2 * kPage);
    CHECK(all.chains.end(id, {activation, result}));
    CHECK(all.chains.begin(id, 2 * pool + 1, {activation, result}));
    CHECK(all.chains.end(id, {result}));
  }
  for (std::uint64_t pool = 1; pool <= kChains; ++pool) {
    CHECK(all.chains.before_replay(2 * pool, 0));
    all.chains.after_replay(2 * pool, 0);
  }
  CHECK_EQ(all.held(), 3 * kChains + 4);  // own pages of each chain, and four for temporaries
}

TEST(pages_of_temporaries_are_lent_between_replays) {
  Fixture all;
  all.capture(1);
  CHECK_EQ(all.lend(), 4u);  // all pages except the undecided result's
  CHECK_EQ(all.held(), 1u);
  CHECK(all.chains.before_replay(1, 0));
  CHECK_EQ(all.held(), 5u);
  CHECK_EQ(all.lend(), 0u);  // the graph is about to be launched
  all.chains.after_replay(1, 0);
  CHECK_EQ(all.lend(), 4u);
}

TEST(lent_pages_are_no_ones_until_their_pool_needs_them) {
  Fixture all;
  all.capture(1);
  CHECK_EQ(all.lend(), 4u);
  all.capture(2);
  CHECK_EQ(all.held(), 6u);
  CHECK(all.chains.keep_apart(graphs::GraphId{1}));
  CHECK_EQ(all.held(), 10u);
}

TEST(a_segment_whose_pages_are_lent_can_be_removed) {
  Fixture all;
  const graphs::PoolId id{0, 1};
  all.chains.begin(id, 1, {});
  const graphs::Address base = all.chains.allocate(id, 4 * kPage);
  CHECK(all.chains.end(id, {}));
  CHECK_EQ(all.lend(), 4u);
  all.chains.release(id);
  CHECK(all.chains.deallocate(base));
  CHECK_EQ(all.held(), 0u);
}

TEST(a_graph_that_is_kept_apart_has_its_own_pages) {
  Fixture all;
  all.capture(1);
  all.capture(2);
  CHECK(all.chains.keep_apart(graphs::GraphId{2}));
  CHECK_EQ(all.held(), 10u);
  CHECK_EQ(all.chains.saved().load(), 0);
}

TEST(access_is_granted_to_all_segments_again) {
  Fixture all;
  all.capture(1);
  all.capture(2);
  const std::size_t before = all.memory.grants();
  all.chains.grant_again();
  CHECK_EQ(all.memory.grants() - before, 10u);
}

TEST(pages_go_with_the_last_segment) {
  Fixture all;
  const graphs::PoolId id{0, 1};
  all.chains.begin(id, 1, {});
  const graphs::Address segment = all.chains.allocate(id, 3 * kPage);
  CHECK(all.chains.end(id, {}));
  all.chains.release(id);
  CHECK(all.chains.deallocate(segment));
  CHECK(!all.chains.deallocate(segment + 1));
  for (std::uint64_t pool = 2; pool < 20 && all.held() != 0; ++pool) {
    all.chains.begin({0, pool}, pool, {});  // retries if the device could not be waited for
  }
  CHECK_EQ(all.held(), 0u);
}

}  // namespace
}  // namespace pgmo::test

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "check.hpp"
#include "engine/memory/sharing.hpp"
#include "random.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

constexpr Tick kTicks = 40;
const std::vector<PlanTicks> kOnePlan = {{0, kTicks}};

// Check that no two pages of an entry are used at once. Each used page must be in one entry.
void check_sound(const std::vector<PageUse>& uses,
                 const std::vector<std::vector<ArenaPage>>& pages) {
  const auto used = [&](const ArenaPage& page, Tick tick) {
    return std::any_of(uses.begin(), uses.end(), [&](const PageUse& use) {
      return use.arena == page.arena && use.first <= page.page && page.page <= use.last &&
             use.from <= tick && tick < use.to;
    });
  };
  Tick last = 0;
  for (const PageUse& use : uses) last = std::max(last, use.to);
  std::set<std::pair<std::uint32_t, std::size_t>> seen;
  for (const auto& page : pages) {
    for (const ArenaPage& one : page) CHECK(seen.emplace(one.arena, one.page).second);
    for (Tick tick = 0; tick < last; ++tick) {
      CHECK(std::count_if(page.begin(), page.end(),
                          [&](const ArenaPage& one) { return used(one, tick); }) <= 1);
    }
  }
  for (const PageUse& use : uses) {
    for (std::size_t page = use.first; page <= use.last; ++page) {
      CHECK(seen.count({use.arena, page}) == 1);
    }
  }
}

}  // namespace

TEST(pages_that_never_live_at_the_same_time_are_one) {
  const std::vector<PageUse> uses = {{0, 0, 3, 0, 5}, {1, 2, 5, 5, 9}};
  const auto pages = share_pages(uses, 2, kOnePlan);
  check_sound(uses, pages);
  CHECK_EQ(pages.size(), 4u);
  CHECK_EQ(most_at_once(uses, 2), 4u);
}

TEST(pages_that_live_at_the_same_time_stay_apart) {
  const std::vector<PageUse> uses = {{0, 0, 3, 0, 5}, {1, 0, 3, 4, 9}};
  const auto pages = share_pages(uses, 2, kOnePlan);
  check_sound(uses, pages);
  CHECK_EQ(pages.size(), 8u);
}

TEST(pages_of_one_arena_are_never_one) {
  const std::vector<PageUse> uses = {{0, 0, 0, 0, 5}, {0, 1, 1, 5, 9}};
  CHECK_EQ(share_pages(uses, 1, kOnePlan).size(), 2u);
}

TEST(no_more_pages_are_shared_than_saves_any) {
  // Four pages are in use at once in ticks 4 to 8, so no more than two pages are shared.
  const std::vector<PageUse> uses = {{0, 0, 1, 0, 4}, {1, 0, 1, 4, 8}, {0, 2, 3, 4, 8}};
  const auto pages = share_pages(uses, 2, kOnePlan);
  check_sound(uses, pages);
  CHECK_EQ(pages.size(), 4u);
  const auto shared =
      std::count_if(pages.begin(), pages.end(), [](const auto& page) { return page.size() > 1; });
  CHECK_EQ(shared, 2);
}

TEST(pages_that_change_hands_less_often_are_shared_first) {
  const std::vector<PageUse> uses = {{0, 0, 0, 0, 2}, {0, 0, 0, 6, 8}, {0, 1, 1, 0, 2},
                                     {0, 2, 2, 3, 9}, {1, 0, 0, 3, 5}, {1, 0, 0, 9, 10}};
  const auto pages = share_pages(uses, 2, kOnePlan);
  check_sound(uses, pages);
  for (const auto& page : pages) {
    if (page.size() > 1) CHECK(page.front() == (ArenaPage{0, 1}));
  }
}

// Page 1 of the second arena has fewer possible partners in the first arena than page 0. Both must
// get one.
TEST(a_page_leaves_its_partner_to_one_that_has_no_other) {
  const std::vector<PageUse> uses = {
      {0, 0, 0, 0, 2}, {0, 1, 1, 0, 4}, {0, 2, 2, 8, 9}, {1, 0, 0, 5, 6}, {1, 1, 1, 3, 6}};
  const auto pages = share_pages(uses, 2, kOnePlan);
  check_sound(uses, pages);
  CHECK_EQ(pages.size(), 3u);
}

TEST(whatever_the_arenas_are_pages_that_share_are_never_used_at_once) {
  Random random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<PageUse> uses;
    const auto arenas = static_cast<std::uint32_t>(random.between(1, 4));
    for (std::int64_t left = random.between(1, 30); left > 0; --left) {
      const auto first = static_cast<std::size_t>(random.between(0, 12));
      const Tick from = random.between(0, 20);
      uses.push_back({static_cast<std::uint32_t>(random.between(0, arenas - 1)), first,
                      first + static_cast<std::size_t>(random.between(0, 4)), from,
                      from + random.between(1, 8)});
    }
    const auto pages = share_pages(uses, arenas, kOnePlan);
    check_sound(uses, pages);
    CHECK(pages.size() >= most_at_once(uses, arenas));
  }
}

// Check that pages move between streams only where the known order allows it.
void check_in_order(const std::vector<PageUse>& uses,
                    const std::vector<std::vector<ArenaPage>>& pages) {
  for (const auto& page : pages) {
    std::vector<const PageUse*> here;
    for (const PageUse& use : uses) {
      for (const ArenaPage& one : page) {
        if (one.arena == use.arena && use.first <= one.page && one.page <= use.last) {
          here.push_back(&use);
        }
      }
    }
    for (const PageUse* one : here) {
      for (const PageUse* other : here) {
        if (one->arena == other->arena) continue;
        // The next tick at which the other use follows this use.
        const Tick next = other->from >= one->to ? other->from : other->from + kTicks;
        CHECK(next >= one->behind[other->arena]);
      }
    }
  }
}

TEST(a_page_that_would_have_to_wait_is_not_shared) {
  const std::vector<Tick> soon = {5, 5};
  const std::vector<Tick> later = {5, 6};
  const std::vector<Tick> whenever = {9, 9};
  for (const auto* behind : {&soon, &later}) {
    const std::vector<PageUse> uses = {{0, 0, 3, 0, 5, 0, behind->data()},
                                       {1, 2, 5, 5, 9, 0, whenever.data()}};
    const auto pages = share_pages(uses, 2, kOnePlan);
    check_in_order(uses, pages);
    CHECK_EQ(pages.size(), behind == &soon ? 4u : 8u);
  }
}

TEST(nor_one_that_the_next_iteration_would_have_to_wait_for) {
  const std::vector<Tick> soon = {5, 5};
  for (const Tick next : {kTicks, kTicks + 1}) {
    const std::vector<Tick> behind = {next, 9};
    const std::vector<PageUse> uses = {{0, 0, 0, 0, 5, 0, soon.data()},
                                       {1, 0, 0, 5, 9, 0, behind.data()}};
    CHECK_EQ(share_pages(uses, 2, kOnePlan).size(), next == kTicks ? 1u : 2u);
  }
}

TEST(another_plan_comes_at_once) {
  const std::vector<PlanTicks> plans = {{0, 10}, {10, 10}};
  const std::vector<Tick> second = {29, 20};
  for (const Tick in_order : {Tick{10}, Tick{11}}) {
    const std::vector<Tick> first = {5, in_order};
    const std::vector<PageUse> uses = {{0, 0, 0, 0, 5, 0, first.data()},
                                       {1, 0, 0, 12, 19, 1, second.data()}};
    CHECK_EQ(share_pages(uses, 2, plans).size(), 2u);  // the second block outlives its iteration
  }
  const std::vector<Tick> over = {19, 19};
  for (const Tick in_order : {Tick{10}, Tick{11}}) {
    const std::vector<Tick> first = {5, in_order};
    const std::vector<PageUse> uses = {{0, 0, 0, 0, 5, 0, first.data()},
                                       {1, 0, 0, 12, 19, 1, over.data()}};
    CHECK_EQ(share_pages(uses, 2, plans).size(), in_order == 10 ? 1u : 2u);
  }
}

TEST(whatever_the_order_pages_go_to_others_only_along_it) {
  Random random(12);
  std::size_t shared = 0;
  for (int round = 0; round < 300; ++round) {
    const auto arenas = static_cast<std::uint32_t>(random.between(2, 4));
    std::vector<PageUse> uses;
    std::vector<std::vector<Tick>> rows;
    rows.reserve(40);
    for (std::int64_t left = random.between(2, 30); left > 0; --left) {
      const auto first = static_cast<std::size_t>(random.between(0, 12));
      const Tick from = random.between(0, 20);
      const Tick to = from + random.between(1, 8);
      auto& behind = rows.emplace_back();
      for (std::uint32_t arena = 0; arena < arenas; ++arena) {
        behind.push_back(to + (random.between(0, 2) == 0 ? 0 : random.between(0, 30)));
      }
      uses.push_back({static_cast<std::uint32_t>(random.between(0, arenas - 1)), first,
                      first + static_cast<std::size_t>(random.between(0, 4)), from, to, 0,
                      behind.data()});
    }
    const auto pages = share_pages(uses, arenas, kOnePlan);
    check_sound(uses, pages);
    for (const auto& page : pages) shared += page.size() > 1;
    // Only the next user counts, because all later users come after the next user. So check pairs
    // without a use in between.
    for (const auto& page : pages) {
      std::vector<const PageUse*> here;
      for (const PageUse& use : uses) {
        for (const ArenaPage& one : page) {
          if (one.arena == use.arena && use.first <= one.page && one.page <= use.last) {
            here.push_back(&use);
          }
        }
      }
      for (const PageUse* one : here) {
        const PageUse* next = nullptr;
        Tick at = 0;
        for (const PageUse* other : here) {
          const Tick comes = other->from >= one->to ? other->from : other->from + kTicks;
          if (other->from < one->to && other->to > one->from)
            continue;  // both uses are of one arena
          if (next == nullptr || comes < at) {
            next = other;
            at = comes;
          }
        }
        if (next != nullptr && next->arena != one->arena) {
          CHECK(at >= one->behind[next->arena]);
        }
      }
    }
  }
  CHECK(shared > 500);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}

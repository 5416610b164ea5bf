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

// No two pages of an entry are used at the same time, and each page that is used is in one entry.
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
  const auto pages = share_pages(uses, 2);
  check_sound(uses, pages);
  CHECK_EQ(pages.size(), 4u);
  CHECK_EQ(most_at_once(uses, 2), 4u);
}

TEST(pages_that_live_at_the_same_time_stay_apart) {
  const std::vector<PageUse> uses = {{0, 0, 3, 0, 5}, {1, 0, 3, 4, 9}};
  const auto pages = share_pages(uses, 2);
  check_sound(uses, pages);
  CHECK_EQ(pages.size(), 8u);
}

TEST(pages_of_one_arena_are_never_one) {
  const std::vector<PageUse> uses = {{0, 0, 0, 0, 5}, {0, 1, 1, 5, 9}};
  CHECK_EQ(share_pages(uses, 1).size(), 2u);
}

TEST(no_more_pages_are_shared_than_saves_any) {
  // Four live at once in any case: of the two pages that could be shared with others, none is.
  const std::vector<PageUse> uses = {{0, 0, 1, 0, 4}, {1, 0, 1, 4, 8}, {0, 2, 3, 4, 8}};
  const auto pages = share_pages(uses, 2);
  check_sound(uses, pages);
  CHECK_EQ(pages.size(), 4u);
  const auto shared =
      std::count_if(pages.begin(), pages.end(), [](const auto& page) { return page.size() > 1; });
  CHECK_EQ(shared, 2);
}

TEST(pages_that_change_hands_less_often_are_shared_first) {
  const std::vector<PageUse> uses = {{0, 0, 0, 0, 2}, {0, 0, 0, 6, 8}, {0, 1, 1, 0, 2},
                                     {0, 2, 2, 3, 9}, {1, 0, 0, 3, 5}, {1, 0, 0, 9, 10}};
  const auto pages = share_pages(uses, 2);
  check_sound(uses, pages);
  for (const auto& page : pages) {
    if (page.size() > 1) CHECK(page.front() == (ArenaPage{0, 1}));
  }
}

// Page 1 of the second arena can be one with page 0 of the first alone, which comes first to the
// other one's mind as well.
TEST(a_page_leaves_its_partner_to_one_that_has_no_other) {
  const std::vector<PageUse> uses = {
      {0, 0, 0, 0, 2}, {0, 1, 1, 0, 4}, {0, 2, 2, 8, 9}, {1, 0, 0, 5, 6}, {1, 1, 1, 3, 6}};
  const auto pages = share_pages(uses, 2);
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
    const auto pages = share_pages(uses, arenas);
    check_sound(uses, pages);
    CHECK(pages.size() >= most_at_once(uses, arenas));
  }
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}

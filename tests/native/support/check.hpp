// Minimal test framework, which prints the checks that failed.
//
//     TEST(a_slot_is_served_once) { CHECK_EQ(engine.hits(), 1u); }
//     int main(int argc, char** argv) { return pgmo::test::run_all(argc, argv); }
//
// A program runs all its tests, or the tests named on the command line.

#pragma once

#include <cstdio>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace pgmo::test {

struct Case {
  const char* name;
  void (*run)();
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

inline int failures = 0;

inline void failed(const char* file, int line, const std::string& what) {
  std::printf("%s:%d: %s\n", file, line, what.c_str());
  ++failures;
}

inline int run_all(int argc, char** argv) {
  int ran = 0;
  int broken = 0;
  for (const Case& one : cases()) {
    bool wanted = argc < 2;
    for (int at = 1; at < argc; ++at) wanted = wanted || std::string_view(argv[at]) == one.name;
    if (!wanted) continue;
    failures = 0;
    one.run();
    std::printf("%s %s\n", failures == 0 ? "ok    " : "FAILED", one.name);
    broken += failures != 0;
    ++ran;
  }
  std::printf("%d tests, %d failed\n", ran, broken);
  return ran == 0 || broken != 0;
}

template <typename Left, typename Right>
void check_equal(const Left& left, const Right& right, const char* text, const char* file,
                 int line) {
  if (left == right) return;
  std::ostringstream what;
  what << text << ": " << left << " is not " << right;
  failed(file, line, what.str());
}

}  // namespace pgmo::test

#define TEST(name)                                                 \
  static void test_##name();                                       \
  [[maybe_unused]] static const bool registered_##name =           \
      (pgmo::test::cases().push_back({#name, test_##name}), true); \
  static void test_##name()

#define CHECK(condition) \
  if (!(condition)) pgmo::test::failed(__FILE__, __LINE__, "does not hold: " #condition)

#define CHECK_EQ(left, right) \
  pgmo::test::check_equal(left, right, #left " == " #right, __FILE__, __LINE__)

#define CHECK_THROWS(expression, type)                                                   \
  do {                                                                                   \
    bool thrown = false;                                                                 \
    try {                                                                                \
      static_cast<void>(expression);                                                     \
    } catch (const type&) {                                                              \
      thrown = true;                                                                     \
    }                                                                                    \
    if (!thrown) pgmo::test::failed(__FILE__, __LINE__, "does not throw: " #expression); \
  } while (false)

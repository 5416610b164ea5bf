// Assertions of invariants, at three levels that PGMO_CHECKS selects at compile time.
//
//     PGMO_CHECKS   0   none: released builds
//                   1   PGMO_ASSERT             a comparison or two where a structure changes
//                   2   PGMO_ASSERT_INTERNAL    a search in a structure
//                   3   PGMO_ASSERT_EXPENSIVE   a structure as a whole; on in native tests
//
// Asserted expressions have no side effects. A violation ends the process: memory may be corrupt.

#pragma once

#include <cstdio>
#include <cstdlib>

#ifndef PGMO_CHECKS
#define PGMO_CHECKS 0
#endif

namespace pgmo {

[[noreturn]] inline void invariant_broken(const char* what, const char* file, int line) noexcept {
  std::fprintf(stderr,
               "pgmo: VIOLATION of an invariant: %s (%s:%d)\nThis is a bug in pgmo; please report "
               "it.\n",
               what, file, line);
  std::abort();
}

}  // namespace pgmo

#define PGMO_CHECKED(holds) \
  ((holds) ? static_cast<void>(0) : ::pgmo::invariant_broken(#holds, __FILE__, __LINE__))
#define PGMO_NOT_CHECKED(holds) static_cast<void>(sizeof((holds) ? 1 : 0))

#if PGMO_CHECKS >= 1
#define PGMO_ASSERT(holds) PGMO_CHECKED(holds)
#else
#define PGMO_ASSERT(holds) PGMO_NOT_CHECKED(holds)
#endif

#if PGMO_CHECKS >= 2
#define PGMO_ASSERT_INTERNAL(holds) PGMO_CHECKED(holds)
#else
#define PGMO_ASSERT_INTERNAL(holds) PGMO_NOT_CHECKED(holds)
#endif

#if PGMO_CHECKS >= 3
#define PGMO_ASSERT_EXPENSIVE(holds) PGMO_CHECKED(holds)
#else
#define PGMO_ASSERT_EXPENSIVE(holds) PGMO_NOT_CHECKED(holds)
#endif

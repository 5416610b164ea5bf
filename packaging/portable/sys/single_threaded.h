// Replacement for a glibc header that older versions lack. libstdc++ reads this variable: if it is
// false, libstdc++ uses atomic operations.

#pragma once

static constexpr char __libc_single_threaded = 0;

// In the place of glibc's header, which older versions do not have: libstdc++ asks it whether
// atomic operations can be saved.

#pragma once

static constexpr char __libc_single_threaded = 0;

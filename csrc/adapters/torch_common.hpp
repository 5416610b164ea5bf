// Functions that the adapters for PyTorch share: error handling at the C boundary, formatting of
// sizes.

#pragma once

#include <c10/util/Exception.h>

#include <cstdio>
#include <exception>
#include <string>

namespace {

// Format a size with at most two decimals, as in "1.50 GiB".
inline std::string binary_units(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", bytes, kUnits[unit]);
  return text;
}

// Run the body, and return 0. If it throws, write the error's text into `message` (at most
// `capacity` bytes) and return 1.
template <typename Body>
int guarded(char* message, size_t capacity, Body&& body) {
  try {
    body();
    return 0;
  } catch (const c10::Error& error) {
    std::snprintf(message, capacity, "%s", error.what_without_backtrace());
  } catch (const std::exception& error) {
    std::snprintf(message, capacity, "%s", error.what());
  }
  return 1;
}

}  // namespace

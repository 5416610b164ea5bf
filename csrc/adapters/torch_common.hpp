// Code that the adapters for PyTorch share: error handling at the C boundary, formatting of sizes,
// and the list of a process's adapters.

#pragma once

#include <c10/util/Exception.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

namespace {

// Format a size as whole bytes, or with two decimals, as in "1.50 GiB".
inline std::string binary_units(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto size = static_cast<double>(bytes);
  int unit = 0;
  for (; size >= 1024 && unit < 4; ++unit) size /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", size, kUnits[unit]);
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

// Adapters of this process, each over an allocator that torch has used. Never destroyed. `kMost`:
// maximum number of adapters.
template <typename Adapter, typename Allocator, int kMost>
class Adapters {
 public:
  // `kind`: the kind of device, for messages.
  constexpr explicit Adapters(const char* kind) : kind_(kind) {}

  // Return the allocator as an adapter, or nullptr if it is not an adapter of this list.
  Adapter* find(const Allocator* allocator) const {
    for (Adapter* adapter : all_) {
      if (adapter != nullptr && adapter == allocator) return adapter;
    }
    return nullptr;
  }

  // Return whether an adapter wraps this allocator.
  bool wraps(const Allocator* allocator) const {
    for (const Adapter* adapter : all_) {
      if (adapter != nullptr && adapter->upstream() == allocator) return true;
    }
    return false;
  }

  // Return the adapter that wraps `upstream`, created if there is none.
  Adapter* over(Allocator* upstream) {
    for (int index = 0; index < kMost; ++index) {
      if (all_[index] == nullptr) all_[index] = new Adapter(upstream, index);
      if (all_[index]->upstream() == upstream) return all_[index];
    }
    TORCH_CHECK(false, "pgmo has wrapped ", kMost, " ", kind_,
                " allocators in this process, and supports no more: start a new process");
  }

 private:
  const char* kind_;
  std::array<Adapter*, kMost> all_{};
};

}  // namespace

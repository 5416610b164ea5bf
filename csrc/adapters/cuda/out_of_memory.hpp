// Requests to the allocator beneath, when memory is exhausted: give idle memory back, retry, and
// extend the error message.
//
//     request ──▶ allocator beneath: fails ──▶ idle pages and arenas go back ──▶ retry: fails
//         ──▶ its error, with the pages included
//
// This file is part of the translation unit torch_cuda.cpp.

#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "adapters/cuda/held_errors.hpp"
#include "adapters/cuda/pages/windows.hpp"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

// Give idle arenas and pages back. Return whether a retry may succeed: some were given back, or the
// allocator beneath may use more of the memory fraction now. Does nothing during a graph capture,
// whose addresses must not change.
bool relieve(Device& device) {
  if (device.pools.any()) return false;
  // While a pool is active, torch's allocator keeps its cache, and would keep the arena there.
  if (device.pages() == nullptr && device.pools.any_active()) return false;
  settle(device);
  bool yielded = false;
  device.any_engine([&](pgmo_engine* engine) {
    yielded = api->yield_idle(engine) != 0 || yielded;
    return false;
  });
  if (device.pages() == nullptr) return yielded;
  synchronize(device);  // only pages that no running work uses go back
  const bool released = pages_api->give_back(device.pages(), ~uint64_t{0}) != 0;
  const bool lent = lend_pages_of_graphs(device) != 0;
  return share_fraction(device, upstreams[0]) || released || yielded || lent;
}

// --- the error message --------------------------------------------------------------------------

constexpr std::array<std::string_view, 4> kUnits = {"bytes", "KiB", "MiB", "GiB"};

// Format a size like torch.
std::string format_like_torch(double bytes) {
  size_t unit = 0;
  for (; bytes > 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f " : "%.2f ", bytes);
  return text.data() + std::string(kUnits[unit]);
}

// Replace the size before `words`, if `text` contains them, by the result of `change(bytes)`.
template <typename Change>
void change_size(std::string& text, std::string_view words, Change&& change) {
  const size_t end = text.find(words);
  if (end == std::string::npos || end == 0) return;
  const size_t unit = text.rfind(' ', end - 1);
  if (unit == std::string::npos || unit == 0) return;
  const size_t begin = text.rfind(' ', unit - 1) + 1;  // 0 if there is no blank before it
  double bytes = std::strtod(text.c_str() + begin, nullptr);
  const std::string_view name = std::string_view(text).substr(unit + 1, end - unit - 1);
  for (const std::string_view known : kUnits) {
    if (known == name)
      return (void)text.replace(begin, end - begin, format_like_torch(change(bytes)));
    bytes *= 1024;
  }
}

// Correct the figures in PyTorch's message: add the pages, and state the limit that the program set
// instead of the part left to torch's allocator.
void count_pages_in(std::string& text, const Device& device, const pgmo_pages_statistics& now) {
  const auto add = [](uint64_t more) {
    return [more](double bytes) { return bytes + static_cast<double>(more); };
  };
  const uint64_t allocated = std::min(now.now.bytes, now.held_bytes);
  change_size(text, " is allocated by PyTorch", add(allocated));
  change_size(text, " is reserved by PyTorch but unallocated", add(now.held_bytes - allocated));
  if (const uint64_t most = allowed(device); most != ~uint64_t{0}) {
    change_size(text, " allowed; ", [most](double) { return static_cast<double>(most); });
  }
}

// Throw torch's error, extended by figures and advice of pgmo. The text begins with torch's own
// text, because programs that search for the largest batch size match it.
[[noreturn]] void throw_out_of_memory(Device& device, const c10::OutOfMemoryError& error) {
  std::string text = error.what_without_backtrace();
  const bool in_session = device.connected() && device.attended.load();
  if (device.pages() != nullptr) {
    pgmo_pages_statistics now;
    pages_api->statistics(device.pages(), &now);
    count_pages_in(text, device, now);
    text += "\npgmo: its pages hold " + binary_units(now.held_bytes) + ", of which " +
            binary_units(now.occupied_bytes) + " are in use" + (in_session ? "; " : ".");
  } else if (in_session) {
    text += "\npgmo: ";
  }
  if (in_session) {
    pgmo_engine_statistics now;
    api->statistics(device.engine.load(), &now);
    if (now.arena_bytes != 0) {
      text += "arenas hold " + binary_units(now.arena_bytes) + ", of which " +
              binary_units(now.live_slot_bytes) + " are in use; ";
    }
    text +=
        "blocks of this session without a slot hold " + binary_units(now.live_fallback_bytes) + ".";
    const std::lock_guard guard(device.mutex);
    if (!device.advice.empty()) text += "\n" + device.advice;
  }
  TORCH_CHECK_WITH(OutOfMemoryError, false, text);
}

// Throw an out-of-memory error in torch's words, because no page is available and the session has a
// limit on pages. The allocator beneath cannot raise this error, because it does not count pages.
[[noreturn]] void throw_beyond_limit(Device& device, size_t bytes) {
  size_t available = 0, total = 0;
  const OnDevice on(device.index);
  std::string capacity;  // empty if the driver does not know it
  if (cudaMemGetInfo(&available, &total) == cudaSuccess) {
    capacity = " GPU " + std::to_string(device.index) + " has a total capacity of " +
               binary_units(total) + " of which " + binary_units(available) + " is free.";
  } else {
    (void)cudaGetLastError();
  }
  try {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ",
                     binary_units(bytes), ".", capacity,
                     " pgmo's pages cannot serve this request; the session may have at most ",
                     binary_units(device.limit.load()), " in pages.");
  } catch (const c10::OutOfMemoryError& error) {
    ++device.failures.ooms;
    throw_out_of_memory(device, error);
  }
}

// --- asking the allocator beneath ---------------------------------------------------------------

// Return whether pgmo adds its own figures to the error.
bool adds_to_error(const Device& device) {
  return device.active() || device.pages() != nullptr;
}

// Call `ask` (a request to the allocator beneath). If it fails, give idle memory back and retry. If
// it fails again, wait a limited time for other threads to drop earlier errors; if they do, retry
// once more. In PyTorch's statistics, the request counts as at most one failure.
template <typename Ask>
auto ask_again_if_relieved(Device& device, CUDAAllocator* upstream, Ask&& ask) {
  const auto retries = [&] {
    return upstream->getDeviceStats(static_cast<c10::DeviceIndex>(device.index)).num_alloc_retries;
  };
  bool again = false, relieved = false, waited = false;
  int64_t before = 0;
  // Count at most one retry, because other threads subtract their own retries.
  const auto own_retry = [&] { return std::min<int64_t>(retries() - before, 1); };
  for (;;) {
    try {
      auto block = ask();
      if (again) device.failures.retries -= own_retry();
      return block;
    } catch (const c10::OutOfMemoryError& error) {
      if (again) device.failures.retries -= own_retry();
      device.splits.stop();  // the allocator has emptied its cache, so the mirror is out of date
      if (!relieved && relieve(device)) {
        relieved = true;
      } else if (!waited && !device.pools.any() && await_held_errors()) {
        relieved = waited = true;
        (void)relieve(device);
      } else {
        device.baseline.raised();
        if (adds_to_error(device)) throw_out_of_memory(device, error);
        throw;
      }
    }
    again = true;
    --device.failures.ooms;
    before = retries();
  }
}

// Request a block from the allocator beneath, and keep torch's statistics correct.
template <typename Ask>
auto ask_upstream(Device& device, CUDAAllocator* upstream, Ask&& ask) {
  if (device.peak_unconfirmed()) [[unlikely]]
    confirm_peak(device, upstream);
  auto block = ask_again_if_relieved(device, upstream, ask);
  note_beneath(device, upstream);
  return block;
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo

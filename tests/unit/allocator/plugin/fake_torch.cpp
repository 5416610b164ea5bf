// What torch does around a pluggable allocator's functions, and ctypes cannot: it catches their
// exceptions, passes filters as C++ objects, and calls from several threads.

#include <atomic>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace {

using Stream = void*;
using Id = std::pair<unsigned long long, unsigned long long>;
using Alloc = void*(std::size_t, int, Stream);
using Free = void(void*, std::size_t, int, Stream);
using Begin = void(int, Id, std::function<bool(Stream)>);
using End = void(int, Id);

}  // namespace

extern "C" {

void* torch_alloc(Alloc* alloc, std::size_t bytes, int device, Stream stream, char* error,
                  std::size_t capacity) {
  error[0] = '\0';
  try {
    return alloc(bytes, device, stream);
  } catch (const std::exception& thrown) {
    std::snprintf(error, capacity, "%s", thrown.what());
  }
  return nullptr;
}

void torch_begin(Begin* begin, int device, unsigned long long id, Stream taken) {
  begin(device, {0, id}, [taken](Stream stream) { return stream == taken; });
}

void torch_end(End* end, int device, unsigned long long id) {
  end(device, {0, id});
}

int torch_fraction(void (*set)(double, int), double fraction, int device) {
  try {
    set(fraction, device);
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}

// Threads that allocate, free each other's blocks, and record streams. Returns how often a block
// was handed out over a living one.
int torch_storm(Alloc* alloc, Free* free, void (*record)(void*, Stream), int device, int threads,
                int rounds) {
  struct Block {
    std::size_t bytes;
    Stream stream;
  };
  std::mutex mutex;
  std::map<std::uintptr_t, Block> living;
  std::atomic<int> overlaps{0};
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int round = 0; round < rounds; ++round) {
      const std::size_t bytes = 512 * (1 + random() % 64);
      const auto stream = reinterpret_cast<Stream>(static_cast<std::uintptr_t>(random() % 4 * 16));
      void* pointer = alloc(bytes, device, stream);
      const auto address = reinterpret_cast<std::uintptr_t>(pointer);
      if (random() % 4 == 0) record(pointer, reinterpret_cast<Stream>(std::uintptr_t{0x100}));
      std::unique_lock lock(mutex);
      const auto after = living.lower_bound(address);
      if (after != living.end() && after->first < address + bytes) ++overlaps;
      if (after != living.begin()) {
        const auto before = std::prev(after);
        if (before->first + before->second.bytes > address) ++overlaps;
      }
      living[address] = {bytes, stream};
      if (living.size() < 64) continue;
      auto victim = std::next(living.begin(), static_cast<long>(random() % living.size()));
      const auto [old, block] = *victim;
      living.erase(victim);  // before the free, for the address may be handed out right after it
      lock.unlock();
      free(reinterpret_cast<void*>(old), block.bytes, device, block.stream);
    }
  };
  std::vector<std::thread> all;
  for (int thread = 0; thread < threads; ++thread) {
    all.emplace_back(work, static_cast<unsigned>(thread));
  }
  for (std::thread& one : all) one.join();
  for (const auto& [address, block] : living) {
    free(reinterpret_cast<void*>(address), block.bytes, device, block.stream);
  }
  return overlaps;
}

}  // extern "C"

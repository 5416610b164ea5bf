// An allocator that stands where PyTorch's own CUDA allocator does: over the host's memory, with a
// log of all calls, a limit for each device, and the native one's indifference to blocks whose
// deleter it does not know. As there, a block that was freed is the next one of its size.
//
// Which methods it has depends on the version of PyTorch; those without behaviour of their own are
// written by interface.py, and answer with something that can be told from nothing.

#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "describe.hpp"
#include "runtime.hpp"

// The generated methods name PyTorch's types as its own class does.
namespace c10::cuda::CUDACachingAllocator::fake_beneath {

namespace {  // a test loads the library several times, and each has memory of its own

using ::fake::kDevices;

// Bytes in use and the most that there may be, of each device; all allocators share the memory.
struct Memory {
  std::array<std::size_t, kDevices> used{};
  std::array<std::size_t, kDevices> limit{};
};

Memory& memory() {
  static Memory one = [] {
    Memory made;
    made.limit.fill(std::size_t{1} << 30);
    return made;
  }();
  return one;
}

class FakeUpstream final : public CUDAAllocator {
 public:
  FakeUpstream(std::string label, c10::DeleterFnPtr deleter)
      : label_(std::move(label)), deleter_(deleter) {}

#include "fake_methods.inc"

  DataPtr allocate(size_t bytes) override {
    call("allocate", bytes);
    const int device = ::fake::current_device();
    void* block = bytes == 0 ? nullptr : take(bytes, handle(device));
    return {block, block, deleter_, Device(DeviceType::CUDA, static_cast<DeviceIndex>(device))};
  }
  DeleterFnPtr raw_deleter() const override { return deleter_; }

  void* raw_alloc(size_t bytes) override {
    call("raw_alloc", bytes);
    return bytes == 0 ? nullptr : take(bytes, handle(::fake::current_device()));
  }
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override {
    call("raw_alloc_with_stream", bytes, stream);
    return bytes == 0 ? nullptr : take(bytes, stream);
  }

  void raw_delete(void* block) override {
    if (block == nullptr) return;
    const std::lock_guard guard(mutex_);
    const auto found = blocks_.find(block);
    if (found == blocks_.end()) {
      ::fake::complain(label_ + " was to free a block that is not its own");
      return;
    }
    const Block freed = found->second;
    ::fake::log(label_ + ": free(" + std::to_string(freed.bytes) + ")");
    memory().used[freed.device] -= freed.bytes;
    std::memset(block, 0xdd, freed.bytes);
    cached_[{freed.device, freed.bytes}].push_back(block);
    blocks_.erase(found);
  }

  void recordStream(const DataPtr& data, CUDAStream stream) override {
    // As the native allocator: blocks from elsewhere are ignored without a word.
    const bool known = data.get() != nullptr && data.get_deleter() == deleter_;
    call(known ? "recordStream" : "recordStream, ignored", data.get(), stream.stream());
  }

  void* getBaseAllocation(void* block, size_t* bytes) override {
    call("getBaseAllocation", block);
    *bytes = size_of(block);
    return block;
  }
  ShareableHandle shareIpcHandle(void* block) override {
    call("shareIpcHandle", block);
    (void)size_of(block);
    return {0, "handle"};
  }

  void beginAllocateToPool(DeviceIndex device, MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    call("beginAllocateToPool", device, pool);
    const std::lock_guard guard(mutex_);
    pools_.push_back({device, pool, std::move(filter)});
  }
  void endAllocateToPool(DeviceIndex device, MempoolId_t pool) override {
    call("endAllocateToPool", device, pool);
    const std::lock_guard guard(mutex_);
    std::erase_if(pools_, [&](const Pool& one) { return one.id == pool; });
  }

  size_t living() {
    const std::lock_guard guard(mutex_);
    return blocks_.size();
  }

 private:
  struct Block {
    int device;
    std::size_t bytes;
  };
  struct Pool {
    DeviceIndex device;
    MempoolId_t id;
    std::function<bool(cudaStream_t)> filter;
  };

  template <typename... Arguments>
  void call(const char* name, const Arguments&... arguments) const {
    ::fake::log(label_ + ": " + describe_call(name, arguments...));
  }

  template <typename Result, typename... Arguments>
  Result answer(const char* name, const Arguments&... arguments) const {
    call(name, arguments...);
    return sample<Result>(7);
  }

  static cudaStream_t handle(int device) {
    return reinterpret_cast<cudaStream_t>(::fake::current_stream(device));
  }

  void* take(std::size_t bytes, cudaStream_t stream) {
    const int device = ::fake::current_device();
    const auto of = reinterpret_cast<std::uintptr_t>(stream);
    if (of != 0 && static_cast<int>(of >> 8) - 1 != device) {
      ::fake::complain("memory was taken on one device for a stream of another");
    }
    const std::size_t rounded = (bytes + 511) / 512 * 512;
    const std::lock_guard guard(mutex_);
    Memory& all = memory();
    TORCH_CHECK_WITH(OutOfMemoryError, all.used[device] + rounded <= all.limit[device],
                     "CUDA out of memory. Tried to allocate ", bytes, " bytes. GPU ", device,
                     " has a total capacity of ", all.limit[device], " bytes of which ",
                     all.limit[device] - all.used[device], " bytes is free.");
    for (const Pool& pool : pools_) {
      if (pool.device == device && pool.filter(stream)) {
        ::fake::log(label_ + ": from pool " + describe(pool.id));
        break;
      }
    }
    all.used[device] += rounded;
    std::vector<void*>& cached = cached_[{device, rounded}];
    if (cached.empty()) cached.push_back(std::aligned_alloc(512, rounded));
    void* block = cached.back();
    cached.pop_back();
    std::memset(block, 0xcc, rounded);
    blocks_.emplace(block, Block{device, rounded});
    return block;
  }

  std::size_t size_of(void* block) {
    const std::lock_guard guard(mutex_);
    const auto found = blocks_.find(block);
    if (found != blocks_.end()) return found->second.bytes;
    ::fake::complain(label_ + " was asked for a block that is not its own");
    return 0;
  }

  std::string label_;
  DeleterFnPtr deleter_;
  std::mutex mutex_;
  std::map<void*, Block> blocks_;
  std::map<std::pair<int, std::size_t>, std::vector<void*>> cached_;
  std::vector<Pool> pools_;
};

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::fake_beneath

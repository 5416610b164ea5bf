// CUDA device of the page space: virtual memory of the driver, and events of the runtime.
//
// Failures are returned, never thrown: each caller has a fallback. Thread-safe. Sizes are in bytes.

#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <type_traits>
#include <vector>

#include "adapters/cuda/deferred.hpp"
#include "adapters/cuda/pages/exports.hpp"
#include "adapters/cuda/pools/active.hpp"
#include "adapters/cuda/streams.hpp"
#include "pages/pgmo_pages.h"

namespace {

// Driver functions, looked up at first use. The runtime does not export them. An adapter linked
// against the driver could not be loaded where there is no driver.
struct CudaDriver {
  decltype(&cuDeviceGet) device = nullptr;
  decltype(&cuDeviceGetAttribute) attribute = nullptr;
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  decltype(&cuMemExportToShareableHandle) share = nullptr;

  // Return the functions; nullptr if there is no driver, or it lacks functions for virtual memory.
  static const CudaDriver* get() {
    static const CudaDriver* const driver = load();
    return driver;
  }

 private:
  static const CudaDriver* load() {
    void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) library = RTLD_DEFAULT;  // search the libraries loaded already
    static CudaDriver driver;
    bool all = true;
    const auto find = [&](auto& entry, const char* name) {
      entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(dlsym(library, name));
      all = all && entry != nullptr;
    };
    find(driver.device, "cuDeviceGet");
    find(driver.attribute, "cuDeviceGetAttribute");
    find(driver.granularity, "cuMemGetAllocationGranularity");
    find(driver.reserve, "cuMemAddressReserve");
    find(driver.create, "cuMemCreate");
    find(driver.release, "cuMemRelease");
    find(driver.map, "cuMemMap");
    find(driver.unmap, "cuMemUnmap");
    find(driver.set_access, "cuMemSetAccess");
    find(driver.share, "cuMemExportToShareableHandle");
    return all ? &driver : nullptr;
  }
};

// Callbacks about memory of the card outside of the pages. All except `took` may throw.
struct Room {
  std::function<bool(uint64_t bytes)> may_hold;  // return whether this many more bytes are allowed
  std::function<bool()> make;                    // free other memory; return true to retry
  std::function<void()> growing = [] {};         // called before a page is created
  std::function<void(int64_t bytes)> took = [](int64_t) {};  // pages took (negative: freed) bytes
};

static_assert(StreamNumbers::kMost <= PGMO_MOST_STREAMS);

class PageDevice {
 public:
  PageDevice(int index, StreamNumbers& streams, const ActivePools& pools, Room room)
      : index_(index), streams_(streams), pools_(pools), room_(std::move(room)) {}

  // Return the size of a page in bytes; 0 before `prepare`.
  uint64_t page() const { return page_; }
  std::mutex& mutex() { return mutex_; }  // for forks

  // Query the device, and return the page size in bytes; 0 if device, driver or system does not
  // support virtual memory. Call it once, before all other functions.
  uint64_t prepare() {
    driver_ = CudaDriver::get();
    CUdevice device = 0;
    int supported = 0;
    if (driver_ == nullptr || driver_->device(&device, index_) != CUDA_SUCCESS) return 0;
    const auto ask = [&](CUdevice_attribute what, int& answer) {
      return driver_->attribute(&answer, what, device) == CUDA_SUCCESS;
    };
    if (!ask(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, supported) || !supported) {
      return 0;
    }
    kind_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind_.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = index_};
    // Make pages readable by network cards, and exportable to other processes, where supported.
    // Neither can be enabled for a page after its creation.
    int network = 0;
    if (ask(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, network) && network) {
      kind_.allocFlags.gpuDirectRDMACapable = 1;
    }
    int exportable = 0;
    if (ask(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, exportable) &&
        exportable) {
      kind_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    }
    size_t least = 0;
    if (driver_->granularity(&least, &kind_, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
        least == 0) {
      return 0;
    }
    page_ = (kPage + least - 1) / least * least;
    access_.push_back({kind_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
    return page_;
  }

  // Give another device access to mappings that are granted from now on; existing mappings must be
  // granted again. Return false if the device has access already.
  bool add_peer(int device) {
    const std::lock_guard guard(mutex_);
    for (const CUmemAccessDesc& one : access_) {
      if (one.location.id == device) return false;
    }
    access_.push_back(
        {{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
    return true;
  }

  enum class Trial {
    kRefused,  // no page can be mapped and accessed
    kPages,    // pages work; two mappings of one page may differ, or the trial failed
    kAliases   // two mappings of one page show the same contents, in stream order
  };

  // Map a page at two addresses, write through one and read through the other. Takes milliseconds.
  Trial try_pages() {
    try {
      const OnDevice on(index_);
      const BesideCaptures beside;
      for (int left = kTrials;; --left) {
        const Alias alias(*this);
        if (alias.whole) return alias.holds() ? Trial::kAliases : Trial::kPages;
        if (left == 1) return alias.refused ? Trial::kRefused : Trial::kPages;
      }
    } catch (const std::exception&) {
      return Trial::kPages;
    }
  }

  // Create a page for a segment of the allocator beneath. No callback of Room is called, because
  // that allocator counts the page itself, and holds its own lock meanwhile.
  bool create_for_segment(uint64_t* page) { return create_once(page) == CUDA_SUCCESS; }

  // Record an event on the stream. Return 0 on failure, for example while the stream is captured.
  uint64_t record_on(cudaStream_t stream) {
    try {
      const OnDevice on(index_);
      const BesideCaptures beside;
      if (is_capturing(stream)) return 0;
      cudaEvent_t event = take_event();
      if (event == nullptr) return 0;
      if (cudaEventRecord(event, stream) == cudaSuccess) return reinterpret_cast<uint64_t>(event);
      (void)cudaGetLastError();
      (void)cudaEventDestroy(event);
    } catch (const std::exception&) {
      // CUDA is shutting down.
    }
    return 0;
  }

  // Delay later work of the stream until the event. Return 0 if that is impossible.
  int wait_on(cudaStream_t stream, uint64_t event) {
    try {
      const OnDevice on(index_);
      const BesideCaptures beside;
      if (is_capturing(stream)) return 0;
      if (cudaStreamWaitEvent(stream, event_of(event), 0) == cudaSuccess) return 1;
      (void)cudaGetLastError();
    } catch (const std::exception&) {
      // CUDA is shutting down.
    }
    return 0;
  }

  // Return the descriptor through which another process can map the page.
  Exports::Result export_page(uint64_t page) {
    return exports_.find_or_export(driver_->share, page);
  }

  Exports& exports() { return exports_; }

  // Return the functions for the page space (pgmo_pages.h), with this object as their context.
  pgmo_pages_device table() {
    return {.context = this,
            .reserve = [](void* self, uint64_t bytes) { return of(self).reserve(bytes); },
            .create = [](void* self, uint64_t* page) { return of(self).create(page); },
            .release = [](void* self, uint64_t page) { of(self).release(page); },
            .map = [](void* self, uintptr_t address,
                      uint64_t page) { return of(self).map(address, page); },
            .grant = [](void* self, uintptr_t address,
                        uint64_t bytes) { return of(self).grant(address, bytes); },
            .unmap = [](void* self, uintptr_t address,
                        uint64_t bytes) { of(self).unmap(address, bytes); },
            .record =
                [](void* self, uint32_t stream) {
                  return of(self).record_on(of(self).streams_.handle(stream));
                },
            .completed = [](void* self, uint64_t event) { return of(self).completed(event); },
            .discard = [](void* self, uint64_t event) { of(self).discard(event); },
            .wait =
                [](void* self, uint32_t stream, uint64_t event) {
                  return of(self).wait_on(of(self).streams_.handle(stream), event);
                },
            .took = [](void* self, int64_t bytes) { of(self).room_.took(bytes); },
            .capturing = [](void* self) -> int { return of(self).pools_.any(); }};
  }

 private:
  static constexpr size_t kPage = size_t{2} << 20;  // rounded up to the device's granularity

  // Maximum number of trials. The first refusal may be due to allocation properties, which the
  // refused call has reset. The second refusal may be accidental.
  static constexpr int kTrials = 3;

  // Scope with a page mapped at two addresses, and a stream.
  struct Alias {
    static constexpr size_t kBytes = 4096;

    explicit Alias(PageDevice& its_device) : device(its_device) {
      for (uintptr_t& address : at) address = device.reserve(device.page_);
      whole = at[0] != 0 && at[1] != 0 && device.create(&page) != 0;
      for (int side = 0; side < 2 && whole; ++side) {
        mapped[side] = device.map(at[side], page) != 0;
        whole = mapped[side] && device.grant(at[side], device.page_) != 0;
        refused = !whole;
      }
      whole = whole && cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess;
    }
    ~Alias() {
      if (stream != nullptr) (void)cudaStreamDestroy(stream);
      for (int side = 0; side < 2; ++side) {
        if (mapped[side]) device.unmap(at[side], device.page_);
      }
      if (page != 0) (void)device.driver_->release(page);
      (void)cudaGetLastError();
    }
    Alias(const Alias&) = delete;
    Alias& operator=(const Alias&) = delete;

    // Write through one address and read through the other, at both ends, alternating.
    bool holds() const {
      for (unsigned char turn = 1; turn <= 8; ++turn) {
        const int writer = turn % 2;
        for (const size_t offset : {size_t{0}, device.page_ - kBytes}) {
          std::array<unsigned char, kBytes> seen{};
          const bool done =
              cudaMemsetAsync(pointer(at[writer] + offset), turn, kBytes, stream) == cudaSuccess &&
              cudaMemcpyAsync(seen.data(), pointer(at[1 - writer] + offset), kBytes,
                              cudaMemcpyDeviceToHost, stream) == cudaSuccess &&
              cudaStreamSynchronize(stream) == cudaSuccess;
          const auto right = [turn](unsigned char byte) { return byte == turn; };
          if (!done || !std::all_of(seen.begin(), seen.end(), right)) return false;
        }
      }
      return true;
    }

    static void* pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

    PageDevice& device;
    std::array<uintptr_t, 2> at{};
    std::array<bool, 2> mapped{};
    uint64_t page = 0;
    cudaStream_t stream = nullptr;
    bool whole = false;    // page, both mappings and stream exist
    bool refused = false;  // mapping or access was refused
  };

  static PageDevice& of(void* self) { return *static_cast<PageDevice*>(self); }
  static cudaEvent_t event_of(uint64_t event) { return reinterpret_cast<cudaEvent_t>(event); }

  uintptr_t reserve(uint64_t bytes) {
    CUdeviceptr address = 0;
    return driver_->reserve(&address, bytes, page_, 0, 0) == CUDA_SUCCESS ? address : 0;
  }

  // Create a page if the limits allow one. If necessary, free other memory. Return 0 on failure.
  int create(uint64_t* page) {
    try {
      room_.growing();
      if (!room_.may_hold(page_) && !(room_.make() && room_.may_hold(page_))) return 0;
      CUresult result = create_once(page);
      if (result == CUDA_ERROR_OUT_OF_MEMORY && room_.make()) result = create_once(page);
      return result == CUDA_SUCCESS;
    } catch (const std::exception&) {
      return 0;
    }
  }

  CUresult create_once(uint64_t* page) {
    const std::lock_guard guard(mutex_);
    CUmemGenericAllocationHandle handle = 0;
    CUresult result = driver_->create(&handle, page_, &kind_, 0);
    if (result == CUDA_ERROR_NOT_PERMITTED || result == CUDA_ERROR_NOT_SUPPORTED) {
      // Some containers forbid exportable memory, so create later pages without that property.
      kind_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
      kind_.allocFlags.gpuDirectRDMACapable = 0;
      result = driver_->create(&handle, page_, &kind_, 0);
    }
    *page = handle;
    return result;
  }

  void release(uint64_t page) {
    exports_.close_one(page);
    (void)driver_->release(page);
  }

  int map(uintptr_t address, uint64_t page) {
    return driver_->map(address, page_, 0, page, 0) == CUDA_SUCCESS;
  }

  int grant(uintptr_t address, uint64_t bytes) {
    const std::lock_guard guard(mutex_);
    if (driver_->set_access(address, bytes, access_.data(), access_.size()) == CUDA_SUCCESS) {
      return 1;
    }
    // Under WSL2, access to memory for network cards is refused although the driver reports
    // support. So create later pages without that property.
    kind_.allocFlags.gpuDirectRDMACapable = 0;
    return 0;
  }

  void unmap(uintptr_t address, uint64_t bytes) { (void)driver_->unmap(address, bytes); }

  int completed(uint64_t event) {
    const BesideCaptures beside;
    const cudaError_t state = cudaEventQuery(event_of(event));
    if (state != cudaSuccess) (void)cudaGetLastError();
    return state == cudaSuccess;
  }

  // Return a spare event, or a new event. Spare events save time, because creating an event takes
  // longer than recording one.
  cudaEvent_t take_event() {
    {
      const std::lock_guard guard(mutex_);
      if (spare_count_ > 0) return spare_[--spare_count_];
    }
    cudaEvent_t event = nullptr;
    if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess) return event;
    (void)cudaGetLastError();
    return nullptr;
  }

  void discard(uint64_t event) {
    {
      const std::lock_guard guard(mutex_);
      if (spare_count_ < spare_.size()) {
        spare_[spare_count_++] = event_of(event);
        return;
      }
    }
    if (cudaEventDestroy(event_of(event)) != cudaSuccess) (void)cudaGetLastError();
  }

  const int index_;
  StreamNumbers& streams_;
  const ActivePools& pools_;
  const Room room_;
  const CudaDriver* driver_ = nullptr;
  size_t page_ = 0;
  Exports exports_;
  std::mutex mutex_;  // guards the following members
  CUmemAllocationProp kind_{};
  std::vector<CUmemAccessDesc> access_;
  std::array<cudaEvent_t, 64> spare_{};
  size_t spare_count_ = 0;
};

}  // namespace

// The calls of the CUDA driver that pages need, looked up when they are first used.
//
// The runtime has no names for them, and linking with the driver would keep the adapter from
// loading where there is none.

#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <type_traits>

namespace {

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

  // nullptr: there is no driver, or one without virtual memory.
  static const CudaDriver* get() {
    static const CudaDriver* const driver = load();
    return driver;
  }

 private:
  static const CudaDriver* load() {
    void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) library = RTLD_DEFAULT;  // one that is in the process already
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

}  // namespace

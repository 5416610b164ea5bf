// Virtual memory functions of the driver: reserved addresses, physical memory, and mappings.
//
// A handle's memory is a range of a file, mapped shared. So two addresses of one handle have the
// same contents, which persist while the handle is mapped nowhere.

#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>

#include "../state.hpp"
#include "mappings.hpp"

namespace fakecuda {
namespace {

enum Call { kCreate, kMap, kUnmap, kSetAccess, kReserve, kRelease, kExport, kImport, kCalls };
std::array<size_t, kCalls> calls{};

Handle next_handle = 0;
uint64_t next_mapping = 0;

// Failures that a test injects: of the calls of a kind, the first `behind` proceed, and the next
// `count` are refused.
struct Refusal {
  size_t behind;
  size_t count;
};
std::array<Refusal, kCalls> refusals{};

// Count a call, and return whether a test has requested its failure.
bool refuses(Call call) {
  ++calls[call];
  Refusal& refusal = refusals[call];
  if (refusal.behind > 0) {
    --refusal.behind;
    return false;
  }
  if (refusal.count == 0) return false;
  --refusal.count;
  return true;
}

// Return whether the size is a positive multiple of the granularity.
bool whole(size_t bytes) {
  return bytes > 0 && bytes % kGranularity == 0;
}

bool is_device(const CUmemLocation& location) {
  return location.id >= 0 && location.id < device_count();
}

constexpr auto kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

}  // namespace

bool supports_virtual_memory() {
  static const bool supported = from_environment("FAKECUDA_NO_VMM", 0) == 0;
  return supported;
}

uint64_t newest_map() {
  return next_mapping;
}

}  // namespace fakecuda

using namespace fakecuda;

// --- addresses ----------------------------------------------------------------------------------

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  if (!supports_virtual_memory()) return CUDA_ERROR_NOT_SUPPORTED;
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

// The address that the caller suggests is ignored: the real driver may ignore it, too.
CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr,
                             unsigned long long flags) {
  if (!supports_virtual_memory()) return CUDA_ERROR_NOT_SUPPORTED;
  const Guard guard(state_mutex());
  if (refuses(kReserve)) return CUDA_ERROR_UNKNOWN;
  if (!whole(bytes) || (alignment & (alignment - 1)) || flags) return CUDA_ERROR_INVALID_VALUE;
  void* pages = map_pages(bytes, PROT_NONE, alignment);
  if (!pages) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(pages);
  reservations()[*address] = bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  if (!supports_virtual_memory()) return CUDA_ERROR_NOT_SUPPORTED;
  const Guard guard(state_mutex());
  const auto found = reservations().find(address);
  if (found == reservations().end() || found->second != bytes || !nothing_mapped(address, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  reservations().erase(found);
  unmap_pages(pointer(address), bytes);
  return CUDA_SUCCESS;
}

// --- physical memory ----------------------------------------------------------------------------

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  if (!supports_virtual_memory()) return CUDA_ERROR_NOT_SUPPORTED;
  const Guard guard(state_mutex());
  if (refuses(kCreate)) return CUDA_ERROR_UNKNOWN;
  if (!whole(bytes) || flags || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!is_device(properties->location)) return CUDA_ERROR_INVALID_DEVICE;
  if (properties->requestedHandleTypes & ~kDescriptor) return CUDA_ERROR_NOT_SUPPORTED;
  const int device = properties->location.id;
  if (!charge(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const FileRange range = take_range(device, bytes);
  if (range.file < 0) {
    refund(device, bytes);
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  *handle = ++next_handle;
  physical()[*handle] = {range, bytes, *properties};
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (!supports_virtual_memory()) return CUDA_ERROR_NOT_SUPPORTED;
  const Guard guard(state_mutex());
  ++calls[kRelease];
  Physical* memory = find_held(handle);
  if (!memory) return CUDA_ERROR_INVALID_VALUE;
  --memory->references;
  drop_if_unused(handle);
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  if (!supports_virtual_memory()) return CUDA_ERROR_NOT_SUPPORTED;
  const Guard guard(state_mutex());
  if (!is_mapped(address)) return CUDA_ERROR_INVALID_VALUE;
  *handle = first_in(reinterpret_cast<CUdeviceptr>(address))->second.handle;
  ++physical().at(*handle).references;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                CUmemGenericAllocationHandle handle) {
  if (!supports_virtual_memory()) return CUDA_ERROR_NOT_SUPPORTED;
  const Guard guard(state_mutex());
  const Physical* memory = find_held(handle);
  if (!memory) return CUDA_ERROR_INVALID_VALUE;
  *properties = memory->properties;
  return CUDA_SUCCESS;
}

// --- maps ---------------------------------------------------------------------------------------

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  if (!supports_virtual_memory()) return CUDA_ERROR_NOT_SUPPORTED;
  const Guard guard(state_mutex());
  if (refuses(kMap)) return CUDA_ERROR_UNKNOWN;
  Physical* memory = find_held(handle);
  const bool allowed = memory && whole(bytes) && bytes <= memory->range.bytes && offset == 0 &&
                       flags == 0 && address % kGranularity == 0 && is_reserved(address, bytes) &&
                       nothing_mapped(address, bytes);
  if (!allowed) return CUDA_ERROR_INVALID_VALUE;
  // Simulates a card on which two mappings of a page have different contents.
  static const bool stale_aliases = from_environment("FAKECUDA_STALE_ALIASES", 0) != 0;
  const int sharing = stale_aliases && memory->mappings > 0 ? MAP_PRIVATE : MAP_SHARED;
  ++memory->mappings;
  mappings()[address] = {handle, bytes, ++next_mapping, sharing, {}};
  know_range(pointer(address), bytes, cudaMemoryTypeDevice, memory->range.device);
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  if (!supports_virtual_memory()) return CUDA_ERROR_NOT_SUPPORTED;
  const Guard guard(state_mutex());
  ++calls[kUnmap];
  if (!is_made_of_mappings(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (!show_nothing(address, bytes)) return CUDA_ERROR_OPERATING_SYSTEM;
  auto at = mappings().find(address);
  while (at != mappings().end() && at->first < address + bytes) {
    const Mapping& mapping = at->second;
    note_unmapping(mapping.number, devices_with_access(mapping));
    --physical().at(mapping.handle).mappings;
    drop_if_unused(mapping.handle);
    forget_range(pointer(at->first));
    at = mappings().erase(at);
  }
  return CUDA_SUCCESS;
}

// The host gets the same access as the devices, because tests could not read the memory otherwise.
// It maps the memory here, because nothing may use the memory before it has access.
CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* descriptions,
                        size_t count) {
  if (!supports_virtual_memory()) return CUDA_ERROR_NOT_SUPPORTED;
  const Guard guard(state_mutex());
  if (refuses(kSetAccess)) return CUDA_ERROR_UNKNOWN;
  if (!is_made_of_mappings(address, bytes) || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (const auto* one = descriptions; one != descriptions + count; ++one) {
    if (one->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    if (!is_device(one->location)) return CUDA_ERROR_INVALID_DEVICE;
  }
  const auto behind = mappings().lower_bound(address + bytes);
  // Simulates a driver that refuses access to memory that network cards may read, as under WSL2.
  static const bool refuses_rdma = from_environment("FAKECUDA_NO_RDMA_ACCESS", 0) != 0;
  for (auto at = mappings().find(address); at != behind; ++at) {
    const Physical& memory = physical().at(at->second.handle);
    if (refuses_rdma && memory.properties.allocFlags.gpuDirectRDMACapable)
      return CUDA_ERROR_UNKNOWN;
  }
  for (auto at = mappings().find(address); at != behind; ++at) {
    for (const auto* one = descriptions; one != descriptions + count; ++one)
      at->second.access[one->location.id] = one->flags;
  }
  const bool shown = show_with_access(mappings().find(address), behind);
  return shown ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                        CUdeviceptr address) {
  if (!supports_virtual_memory()) return CUDA_ERROR_NOT_SUPPORTED;
  const Guard guard(state_mutex());
  if (!is_mapped(pointer(address))) return CUDA_ERROR_INVALID_VALUE;
  const auto& access = first_in(address)->second.access;
  const auto found = access.find(location->id);
  *flags = found == access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : found->second;
  return CUDA_SUCCESS;
}

// --- sharing ------------------------------------------------------------------------------------

CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  if (!supports_virtual_memory() || type != kDescriptor) return CUDA_ERROR_NOT_SUPPORTED;
  const Guard guard(state_mutex());
  if (refuses(kExport)) return CUDA_ERROR_UNKNOWN;
  Physical* memory = find_held(handle);
  if (!memory || flags || !(memory->properties.requestedHandleTypes & kDescriptor))
    return CUDA_ERROR_INVALID_VALUE;
  if (!memory->range.own && !move_to_own_file(handle, *memory)) return CUDA_ERROR_OPERATING_SYSTEM;
  const int descriptor = dup(memory->range.file);
  if (descriptor < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(shareable) = descriptor;
  return CUDA_SUCCESS;
}

// In the process that has created the memory, return the existing handle, with one more reference.
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                        CUmemAllocationHandleType type) {
  if (!supports_virtual_memory() || type != kDescriptor) return CUDA_ERROR_NOT_SUPPORTED;
  const Guard guard(state_mutex());
  ++calls[kImport];
  const FileRange range = from_descriptor(static_cast<int>(reinterpret_cast<intptr_t>(shareable)));
  if (range.file < 0 || range.device >= device_count()) return CUDA_ERROR_INVALID_VALUE;
  for (auto& [known, memory] : physical()) {
    if (!memory.range.own || !same_file(memory.range.file, range.file)) continue;
    give_back_range(range);
    ++memory.references;
    *handle = known;
    return CUDA_SUCCESS;
  }
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = kDescriptor;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = range.device;
  use_context(range.device);
  *handle = ++next_handle;
  physical()[*handle] = {range, 0, properties};
  return CUDA_SUCCESS;
}

// --- for tests ----------------------------------------------------------------------------------

// Return the number of calls of one kind (a `Call`) since the last reset, refused ones included.
extern "C" size_t fakecuda_driver_calls(int kind, int reset) {
  const Guard guard(state_mutex());
  size_t& counter = calls.at(static_cast<size_t>(kind));
  const size_t counted = counter;
  if (reset) counter = 0;
  return counted;
}

// Refuse `count` calls of a kind, after `behind` calls that proceed. Possible kinds: kCreate, kMap,
// kSetAccess, kReserve, kExport.
extern "C" void fakecuda_refuse(int kind, size_t behind, size_t count) {
  const Guard guard(state_mutex());
  refusals.at(static_cast<size_t>(kind)) = {behind, count};
}

// Return the number of exported or imported handles. The stub keeps a descriptor for each.
extern "C" size_t fakecuda_own_files() {
  const Guard guard(state_mutex());
  size_t count = 0;
  for (const auto& [handle, memory] : physical()) count += memory.range.own;
  return count;
}

// Tables behind the driver's virtual memory: what is mapped where. Its calls are in
// virtual_memory.cpp. All lookups require the lock.

#pragma once

#include <cuda.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "../state.hpp"

namespace fakecuda {

// Physical memory, charged to its card until its handle has no references and no mappings.
struct Physical {
  FileRange range;
  size_t charged;  // 0 if another process created it
  CUmemAllocationProp properties;
  size_t references = 1;
  size_t mappings = 0;
};

using Handle = CUmemGenericAllocationHandle;

struct Mapping {
  Handle handle;
  size_t bytes;
  uint64_t number;  // later mappings have higher ones
  std::map<int, CUmemAccess_flags> access;
};

using Mappings = std::map<CUdeviceptr, Mapping>;

std::map<CUdeviceptr, size_t>& reservations();
std::map<Handle, Physical>& physical();
Mappings& mappings();

inline void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

// --- physical memory ----------------------------------------------------------------------------

// Return the memory of a handle with references, or null.
Physical* find_held(Handle handle);

void drop_if_unused(Handle handle);

// Move exported memory into a file of its own, at all of its addresses, because a descriptor cannot
// carry an offset.
bool move_to_own_file(Handle handle, Physical& memory);

// --- ranges of addresses ------------------------------------------------------------------------

// Return the mapping that contains `begin`, or the next one.
Mappings::iterator first_in(CUdeviceptr begin);

bool nothing_mapped(CUdeviceptr begin, size_t bytes);

// Return whether a range consists of whole mappings without gaps.
bool is_made_of_mappings(CUdeviceptr begin, size_t bytes);

bool is_reserved(CUdeviceptr begin, size_t bytes);

// --- mappings of the host -----------------------------------------------------------------------

int protection(const Mapping& mapping);
std::vector<int> devices_with_access(const Mapping& mapping);

bool show(const FileRange& range, CUdeviceptr address, size_t bytes, int protection,
          int sharing = MAP_SHARED);
bool show_nothing(CUdeviceptr address, size_t bytes);

}  // namespace fakecuda

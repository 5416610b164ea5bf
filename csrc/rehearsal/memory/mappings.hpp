// What is mapped where: the tables behind the driver's virtual memory. Its calls are in
// virtual_memory.cpp; whoever looks something up here has the lock.

#pragma once

#include <cuda.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "../state.hpp"

namespace fakecuda {

// Charged to its card until nobody has the handle any more and it is mapped nowhere.
struct Physical {
  FileRange range;
  size_t charged;  // nothing where another process has created it
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

// The memory of a handle that somebody still has, or null.
Physical* find_held(Handle handle);

void drop_if_unused(Handle handle);

// A descriptor has no room for an offset: what is exported moves into a file of its own, at all of
// its addresses.
bool move_to_own_file(Handle handle, Physical& memory);

// --- ranges of addresses ------------------------------------------------------------------------

// The mapping that has something of the range, or the one behind it.
Mappings::iterator first_in(CUdeviceptr begin);

bool nothing_mapped(CUdeviceptr begin, size_t bytes);

// Whether a range consists of mappings, without gaps and without parts of them.
bool is_made_of_mappings(CUdeviceptr begin, size_t bytes);

bool is_reserved(CUdeviceptr begin, size_t bytes);

// --- what the host sees there -------------------------------------------------------------------

int protection(const Mapping& mapping);
std::vector<int> devices_with_access(const Mapping& mapping);

bool show(const FileRange& range, CUdeviceptr address, size_t bytes, int protection,
          int sharing = MAP_SHARED);
bool show_nothing(CUdeviceptr address, size_t bytes);

}  // namespace fakecuda

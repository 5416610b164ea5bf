// Tables of the stub's virtual memory: reserved addresses, physical memory, and what is mapped
// where. The driver functions are in virtual_memory.cpp. All functions here require the lock.

#pragma once

#include <cuda.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "../state.hpp"

namespace fakecuda {

// Physical memory of a handle. It is charged to its card until it has no references and no
// mappings.
struct Physical {
  FileRange range;
  size_t charged;  // bytes; 0 if another process has created it
  CUmemAllocationProp properties;
  size_t references = 1;
  size_t mappings = 0;
};

using Handle = CUmemGenericAllocationHandle;

struct Mapping {
  Handle handle;
  size_t bytes;
  uint64_t number;  // later mappings have higher numbers
  int sharing;      // MAP_SHARED or MAP_PRIVATE
  std::map<int, CUmemAccess_flags> access;
  bool shown = false;  // whether the host has mapped the memory
};

using Mappings = std::map<CUdeviceptr, Mapping>;

// Bytes of each reservation by address; memory by handle; mappings by address.
std::map<CUdeviceptr, size_t>& reservations();
std::map<Handle, Physical>& physical();
Mappings& mappings();

inline void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

// --- physical memory ----------------------------------------------------------------------------

// Return the memory of a handle that has references; null if there is no such handle.
Physical* find_held(Handle handle);

// Refund and forget a handle, unless it has references or mappings.
void drop_if_unused(Handle handle);

// Move memory into a file of its own, and map this file at all addresses of the memory. Exported
// memory needs its own file, because a descriptor has no offset. Return false on failure.
bool move_to_own_file(Handle handle, Physical& memory);

// --- ranges of addresses ------------------------------------------------------------------------

// Return the mapping that contains `begin`, or else the next mapping or end().
Mappings::iterator first_in(CUdeviceptr begin);

bool nothing_mapped(CUdeviceptr begin, size_t bytes);

// Return whether a range consists of whole mappings without gaps.
bool is_made_of_mappings(CUdeviceptr begin, size_t bytes);

// Return whether a range lies within one reservation.
bool is_reserved(CUdeviceptr begin, size_t bytes);

// --- mappings of the host -----------------------------------------------------------------------

// Return the union of all devices' access, as flags of mmap.
int protection(const Mapping& mapping);
std::vector<int> devices_with_access(const Mapping& mapping);

// `show` maps a range of a file at an address of this process; `show_nothing` makes the addresses
// inaccessible. Both replace existing mappings, and return false on failure.
bool show(const FileRange& range, CUdeviceptr address, size_t bytes, int protection, int sharing);
bool show_nothing(CUdeviceptr address, size_t bytes);

// Give the host the access of all devices to the mappings from `begin` to `end`, which are
// adjacent. Return false on failure.
bool show_with_access(Mappings::iterator begin, Mappings::iterator end);

}  // namespace fakecuda

#include "mappings.hpp"

#include <algorithm>
#include <iterator>

namespace fakecuda {
namespace {

// Return whether one call of the host can map `next` together with the mappings before it. They
// begin with `first`, and their memory is `range`.
bool continues(const Mapping& first, const FileRange& range, const Mapping& next) {
  const FileRange& memory = physical().at(next.handle).range;
  return memory.file == range.file &&
         memory.begin == range.begin + static_cast<off_t>(range.bytes) &&
         next.shown == first.shown && next.sharing == first.sharing &&
         protection(next) == protection(first);
}

}  // namespace

std::map<CUdeviceptr, size_t>& reservations() {
  static auto* all = new std::map<CUdeviceptr, size_t>;
  return *all;
}

std::map<Handle, Physical>& physical() {
  static auto* all = new std::map<Handle, Physical>;
  return *all;
}

Mappings& mappings() {
  static auto* all = new Mappings;
  return *all;
}

Physical* find_held(Handle handle) {
  const auto found = physical().find(handle);
  return found == physical().end() || found->second.references == 0 ? nullptr : &found->second;
}

void drop_if_unused(Handle handle) {
  const Physical& memory = physical().at(handle);
  if (memory.references > 0 || memory.mappings > 0) return;
  refund(memory.range.device, memory.charged);
  give_back_range(memory.range);
  physical().erase(handle);
}

Mappings::iterator first_in(CUdeviceptr begin) {
  auto at = mappings().upper_bound(begin);
  if (at == mappings().begin()) return at;
  const auto before = std::prev(at);
  return before->first + before->second.bytes > begin ? before : at;
}

bool nothing_mapped(CUdeviceptr begin, size_t bytes) {
  const auto at = first_in(begin);
  return at == mappings().end() || at->first >= begin + bytes;
}

bool is_made_of_mappings(CUdeviceptr begin, size_t bytes) {
  CUdeviceptr end = begin;
  for (auto at = mappings().find(begin); at != mappings().end() && end < begin + bytes; ++at) {
    if (at->first != end) return false;
    end += at->second.bytes;
  }
  return bytes > 0 && end == begin + bytes;
}

bool is_reserved(CUdeviceptr begin, size_t bytes) {
  const auto next = reservations().upper_bound(begin);
  if (next == reservations().begin()) return false;
  const auto& [start, length] = *std::prev(next);
  return begin + bytes <= start + length;
}

int protection(const Mapping& mapping) {
  int found = PROT_NONE;
  for (const auto& [device, flags] : mapping.access) {
    if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) found |= PROT_READ;
    if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) found |= PROT_WRITE;
  }
  return found;
}

std::vector<int> devices_with_access(const Mapping& mapping) {
  std::vector<int> devices;
  for (const auto& [device, flags] : mapping.access)
    if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) devices.push_back(device);
  return devices;
}

bool show(const FileRange& range, CUdeviceptr address, size_t bytes, int protection, int sharing) {
  return mmap(pointer(address), bytes, protection, sharing | MAP_FIXED | MAP_NORESERVE, range.file,
              range.begin) != MAP_FAILED;
}

bool show_nothing(CUdeviceptr address, size_t bytes) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  return mmap(pointer(address), bytes, PROT_NONE, kFlags, -1, 0) != MAP_FAILED;
}

// Mappings that are adjacent in their file, too, take one call of the host. Otherwise, a program
// that maps thousands of pages would spend most of its time in the host's kernel.
bool show_with_access(Mappings::iterator begin, Mappings::iterator end) {
  while (begin != end) {
    const auto& [address, first] = *begin;
    FileRange range = physical().at(first.handle).range;
    range.bytes = first.bytes;
    auto next = std::next(begin);
    for (; next != end && continues(first, range, next->second); ++next)
      range.bytes += next->second.bytes;
    const int access = protection(first);
    const bool done = first.shown ? mprotect(pointer(address), range.bytes, access) == 0
                                  : show(range, address, range.bytes, access, first.sharing);
    if (!done) return false;
    for (; begin != next; ++begin) begin->second.shown = true;
  }
  return true;
}

bool move_to_own_file(Handle handle, Physical& memory) {
  const FileRange own = own_file(memory.range);
  if (own.file < 0) return false;
  for (const auto& [address, mapping] : mappings())
    if (mapping.handle == handle && mapping.shown &&
        !show(own, address, mapping.bytes, protection(mapping), mapping.sharing))
      return false;
  give_back_range(memory.range);
  memory.range = own;
  return true;
}

bool is_mapped(const void* address) {
  return !nothing_mapped(reinterpret_cast<CUdeviceptr>(address), 1);
}

bool lacks_memory(const void* begin, size_t bytes) {
  const Guard guard(state_mutex());
  auto at = reinterpret_cast<CUdeviceptr>(begin);
  const CUdeviceptr end = at + bytes;
  if (bytes == 0 || !is_reserved(at, 1)) return false;
  for (auto next = first_in(at); at < end; ++next) {
    if (next == mappings().end() || next->first > at) return true;
    at = next->first + next->second.bytes;
  }
  return false;
}

std::vector<MappedPart> mapped_parts(const void* begin, size_t bytes) {
  std::vector<MappedPart> parts;
  const auto from = reinterpret_cast<CUdeviceptr>(begin);
  const CUdeviceptr to = from + bytes;
  for (auto at = first_in(from); at != mappings().end() && at->first < to; ++at) {
    const CUdeviceptr start = at->first;
    parts.push_back({at->second.number, at->second.handle, std::max(from, start) - start,
                     std::min(to, start + at->second.bytes) - start});
  }
  return parts;
}

}  // namespace fakecuda

// Blocks of pages in other processes, by handles that PyTorch's own allocator opens there.
//
//     version 'e'   process, page size, pages, kind   descriptor of each page
//     └─ from the allocator beneath            └─ since 3
//                                                     └─ fetched by the other process
//
// It is the form in which that allocator shares an expandable segment, so that the other process
// needs no pgmo. What is shared stays where it is for good: nobody says when the other process has
// let go of it.
//
// Included by adapter.hpp alone.

#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "adapters/cuda/windows.hpp"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

constexpr char kExpandableSegment = 'e';
constexpr char kNewestVersion = 3;
struct SegmentHeader {
  pid_t process;
  size_t page;
  size_t pages;
};
struct SegmentHeader3 {
  pid_t process;
  size_t page;
  size_t pages;
  int kind;
};
constexpr int kDescriptors = 1;  // and not fabric handles

// A process may have a thousand descriptors, as a rule, and that many more if it asks for them;
// 2 GiB are a thousand pages.
bool allow_more_descriptors() {
  rlimit most{};
  if (getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur >= most.rlim_max) return false;
  most.rlim_cur = most.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &most) == 0;
}

int descriptor_of(Device& device, uint64_t page) {
  const int descriptor = device.page_device->descriptor_of(page);
  if (descriptor >= 0 || !allow_more_descriptors()) return descriptor;
  return device.page_device->descriptor_of(page);
}

// By which the allocator beneath begins its handles.
char version_of_handles(CUDAAllocator* upstream) {
  const c10::DataPtr block = upstream->allocate(1);
  return upstream->shareIpcHandle(block.get()).handle.at(0);
}

template <typename Header>
std::string header_of(const Device& device, size_t pages) {
  Header header;
  std::memset(&header, 0,
              sizeof header);  // between its members, too: handles are compared as texts
  header.process = getpid();
  header.page = device.page_device->page();
  header.pages = pages;
  if constexpr (std::is_same_v<Header, SegmentHeader3>) header.kind = kDescriptors;
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

// nullptr: the block lies in no device's pages.
Device* device_of_pages(const void* block) {
  for (Device& device : devices()) {
    if (device.pages() != nullptr && pages_api->owns(device.pages(), block)) return &device;
  }
  return nullptr;
}

ShareableHandle share_pages(Device& device, CUDAAllocator* upstream, void* block) {
  TORCH_CHECK(!forked.load(), "a forked process cannot share what it has inherited");
  const OnDevice on(device.index);
  static const char version = version_of_handles(upstream);
  TORCH_CHECK(version >= 1 && version <= kNewestVersion,
              "pgmo does not know how this PyTorch shares tensors with other processes: switch its "
              "pages off there, by PGMO_PAGES=0 or pgmo.optimize(pages=False)");
  std::vector<uint64_t> pages;
  const uintptr_t begin = pages_api->share(
      device.pages(), block, bytes_of(device, block),
      [](void* context, uint64_t page) {
        static_cast<std::vector<uint64_t>*>(context)->push_back(page);
      },
      &pages);
  TORCH_CHECK(begin != 0, "pgmo: no tensor lives there");
  std::string handle{version, kExpandableSegment};
  handle += version < 3 ? header_of<SegmentHeader>(device, pages.size())
                        : header_of<SegmentHeader3>(device, pages.size());
  for (const uint64_t page : pages) {
    const int descriptor = descriptor_of(device, page);
    TORCH_CHECK(descriptor >= 0,
                "this tensor lies in pgmo's pages, which the driver does not share with other "
                "processes here. For a program that shares CUDA tensors switch them off: "
                "PGMO_PAGES=0, or pgmo.optimize(pages=False)");
    handle.append(reinterpret_cast<const char*>(&descriptor), sizeof descriptor);
  }
  const auto address = reinterpret_cast<uintptr_t>(block);
  return {static_cast<ptrdiff_t>(address - begin), std::move(handle)};
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo

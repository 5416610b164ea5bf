// Shares pages with other processes, through handles that PyTorch's own allocator opens in the
// other process. A handle consists of:
//
//     version       byte, as in handles of the allocator beneath
//     'e'           "expandable segment"
//     header        process id, bytes of a page, number of pages, kind (from version 3 on)
//     descriptors   one per page, as numbers in this process: the other process copies them
//
// This is the format of an expandable segment, so the other process needs no pgmo. PyTorch keeps
// the block of a sent tensor alive until the other process has released the tensor. The pages under
// the block of a sent tensor stay in place while the block lives.
//
// This file is part of the translation unit torch_cuda.cpp.

#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <mutex>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "adapters/cuda/pages/windows.hpp"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

constexpr char kExpandableSegment = 'e';
constexpr char kNewestVersion = 3;
// Layouts of PyTorch, for versions below 3 and from 3 on.
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
constexpr int kDescriptors = 1;  // a kind of handles: file descriptors, not fabric handles

// Return the version byte at the start of handles of the allocator beneath.
char version_of_handles(CUDAAllocator* upstream) {
  const c10::DataPtr block = upstream->allocate(1);
  return upstream->shareIpcHandle(block.get()).handle.at(0);
}

template <typename Header>
std::string header_of(const Device& device, size_t pages) {
  Header header;
  std::memset(&header, 0, sizeof header);  // padding, too: handles are compared as bytes
  header.process = getpid();
  header.page = device.page_device->page();
  header.pages = pages;
  // Other processes cache segments by their handle. After a descriptor was closed, the descriptor
  // of another page may get its number. So store the count of closed descriptors in the padding,
  // which changes the handle.
  const uint32_t closed = device.page_device->exports().closed();
  static_assert(offsetof(Header, page) >= sizeof header.process + sizeof closed);
  std::memcpy(reinterpret_cast<char*>(&header) + sizeof header.process, &closed, sizeof closed);
  if constexpr (std::is_same_v<Header, SegmentHeader3>) header.kind = kDescriptors;
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

// Return the device in whose pages the block lies, or nullptr.
Device* device_of_pages(const void* block) {
  for (Device& device : devices()) {
    if (device.pages() != nullptr && pages_api->owns(device.pages(), block)) return &device;
  }
  return nullptr;
}

// Return the handles of the pages under live blocks that were sent.
std::unordered_set<uint64_t> pages_of_sent_blocks(Device& device) {
  std::unordered_set<uint64_t> pages;
  pages_api->for_each_shared(
      device.pages(),
      [](void* context, uint64_t page) {
        static_cast<std::unordered_set<uint64_t>*>(context)->insert(page);
      },
      &pages);
  return pages;
}

[[noreturn]] void throw_no_descriptors(Device& device, size_t bytes) {
  const size_t page = device.page_device->page();
  TORCH_CHECK(
      false, "pgmo cannot send this tensor of ", binary_units(bytes),
      " to another process: no file descriptors are left. Each page of ", binary_units(page),
      " needs a descriptor while a sent tensor lives there, and pages of ",
      binary_units(device.page_device->exports().count() * page),
      " in total have one; the limit is ", Exports::limit(),
      " descriptors. Raise the limit (ulimit -Hn), send less at a time and delete tensors once "
      "sent, or switch pages off: PGMO_PAGES=0, or pgmo.optimize(pages=False)");
}

// Return the descriptors of these pages. If descriptors are scarce, close unneeded descriptors. If
// a page cannot be exported, close the descriptors of this call, and throw c10::Error.
std::vector<int> descriptors_of(Device& device, const std::vector<uint64_t>& pages, size_t bytes) {
  std::vector<int> descriptors;
  std::vector<uint64_t> fresh;
  bool closed_unused = false;
  while (descriptors.size() < pages.size()) {
    const uint64_t page = pages[descriptors.size()];
    const Exports::Result result = device.page_device->export_page(page);
    if (result.fresh) fresh.push_back(page);
    if (result.descriptor >= 0) {
      descriptors.push_back(result.descriptor);
      continue;
    }
    const bool scarce = result.failure == Exports::Failure::kDescriptors;
    if (scarce && !closed_unused) {
      device.page_device->exports().close_all_but(pages_of_sent_blocks(device));
      closed_unused = true;
      continue;
    }
    for (const uint64_t one : fresh) device.page_device->exports().close_one(one);
    if (scarce) throw_no_descriptors(device, bytes);
    TORCH_CHECK(false,
                "this tensor lies in pgmo's pages, and the driver refuses to share them with other "
                "processes. In programs that share CUDA tensors, switch pages off: "
                "PGMO_PAGES=0, or pgmo.optimize(pages=False)");
  }
  return descriptors;
}

// Mutex that is held until a handle is complete, so that no other call closes its descriptors.
std::mutex& sharing_mutex() {
  static std::mutex one_at_a_time;
  return one_at_a_time;
}

// Return the handle of the pages under a block, and the block's offset in these pages. Throws
// c10::Error if the pages cannot be exported.
ShareableHandle share_pages(Device& device, CUDAAllocator* upstream, void* block) {
  TORCH_CHECK(!forked.load(), "a forked process cannot share CUDA tensors that it has inherited");
  const OnDevice on(device.index);
  static const char version = version_of_handles(upstream);
  TORCH_CHECK(version >= 1 && version <= kNewestVersion,
              "pgmo does not know how this version of PyTorch shares tensors with other processes: "
              "switch pages off, by PGMO_PAGES=0 or pgmo.optimize(pages=False)");
  const std::lock_guard guard(sharing_mutex());
  std::vector<uint64_t> pages;
  const uint64_t bytes = bytes_of(device, block);
  const uintptr_t begin = pages_api->share(
      device.pages(), block, bytes,
      [](void* context, uint64_t page) {
        static_cast<std::vector<uint64_t>*>(context)->push_back(page);
      },
      &pages);
  TORCH_CHECK(begin != 0,
              "pgmo cannot share this tensor: it was freed, it sleeps, or the host is out of "
              "memory");
  const std::vector<int> descriptors = descriptors_of(device, pages, bytes);
  std::string handle{version, kExpandableSegment};
  handle += version < 3 ? header_of<SegmentHeader>(device, pages.size())
                        : header_of<SegmentHeader3>(device, pages.size());
  handle.append(reinterpret_cast<const char*>(descriptors.data()),
                descriptors.size() * sizeof(int));
  const auto address = reinterpret_cast<uintptr_t>(block);
  return {static_cast<ptrdiff_t>(address - begin), std::move(handle)};
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo

// Moves the memory under a tensor's storage: all tensors that share the storage move with it.
//
//     storage ──▶ DataPtr ──▶ old block           storage ──▶ DataPtr ──▶ new block
//                                          ══▶
//     tensor, views ──▶ storage                    tensor, views ──▶ storage    (as before)
//
// Whether anybody holds the old address itself is for the caller to find out: see
// pgmo/allocator/adapters/relocation.py. Nothing here may run while the memory is in use.

#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <utility>

extern "C" {

// What there is to know about the storage of a tensor.
struct pgmo_storage_view {
  void* storage;  // null: the tensor has none
  void* data;
  uint64_t bytes;
  uint32_t storage_uses;  // tensors, and others, that hold the storage
  uint32_t tensor_uses;
  int32_t device;
  int32_t familiar;  // whether this adapter or the allocator beneath frees the block
};
}

namespace {

// How an adapter reaches memory: it knows how to copy, and which deleter a block of the engine's
// gets.
struct Mover {
  void (*copy)(void* to, const void* from, size_t bytes);
  bool (*familiar)(const c10::DataPtr& data);
};

inline c10::StorageImpl* storage_of(void* storage) {
  return static_cast<c10::StorageImpl*>(storage);
}

inline void view_storage(void* tensor, const Mover& mover, pgmo_storage_view* out) {
  auto* impl = static_cast<c10::TensorImpl*>(tensor);
  *out = {};
  if (!impl->has_storage()) return;
  c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  *out = {.storage = storage,
          .data = data.get(),
          .bytes = storage->nbytes(),
          .storage_uses = static_cast<uint32_t>(c10::raw::intrusive_ptr::use_count(storage)),
          .tensor_uses = static_cast<uint32_t>(c10::raw::intrusive_ptr::use_count(impl)),
          .device = data.device().index(),
          .familiar = mover.familiar(data)};
}

// The storage's bytes go to the host, and its block is freed.
inline void park_storage(void* storage, const Mover& mover, void* host) {
  c10::StorageImpl* impl = storage_of(storage);
  const c10::DataPtr& data = impl->_mutable_data_ptr_no_checks();
  mover.copy(host, data.get(), impl->nbytes());
  const c10::DataPtr freed = impl->set_data_ptr(c10::DataPtr(nullptr, data.device()));
}

// And back, into a new block.
inline void unpark_storage(void* storage, const Mover& mover, c10::DataPtr block,
                           const void* host) {
  c10::StorageImpl* impl = storage_of(storage);
  mover.copy(block.get(), host, impl->nbytes());
  impl->set_data_ptr_noswap(std::move(block));
}

inline void move_storage(void* storage, const Mover& mover, c10::DataPtr block) {
  c10::StorageImpl* impl = storage_of(storage);
  mover.copy(block.get(), impl->_mutable_data_ptr_no_checks().get(), impl->nbytes());
  const c10::DataPtr freed = impl->set_data_ptr(std::move(block));
}

}  // namespace

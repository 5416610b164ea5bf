// The smallest class that the generated methods fit into: what is written by hand for the real
// adapter is written by hand here too, and does no more than hand the request on.
#include <c10/cuda/CUDACachingAllocator.h>

#include <utility>

namespace {

using namespace c10;
using namespace c10::cuda;
using namespace c10::cuda::CUDACachingAllocator;

template <typename... Arguments>
void note_history(const Arguments&...) {}

template <typename... Arguments>
void note_release(const Arguments&...) {}
template <typename... Arguments>
void note_pool(const Arguments&...) {}
template <typename... Arguments>
void leave_pool(const Arguments&...) {}

template <typename... Arguments>
SnapshotInfo with_pages(SnapshotInfo beneath, const Arguments&...) {
  return beneath;
}

class Adapter final : public c10::cuda::CUDACachingAllocator::CUDAAllocator {
 public:
  explicit Adapter(CUDAAllocator* upstream) : upstream_(upstream) {}

#include "torch_cuda_forwarders.inc"

  void init(int count) override { upstream_->init(count); }
  void enable(bool value) override { upstream_->enable(value); }
  double getMemoryFraction(DeviceIndex device) override {
    return upstream_->getMemoryFraction(device);
  }
  void setMemoryFraction(double fraction, DeviceIndex device) override {
    upstream_->setMemoryFraction(fraction, device);
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override {
    return upstream_->getDeviceStats(device);
  }
  void resetAccumulatedStats(DeviceIndex device) override {
    upstream_->resetAccumulatedStats(device);
  }
  void resetPeakStats(DeviceIndex device) override { upstream_->resetPeakStats(device); }
#ifdef PGMO_HAS_emptyCache_pool
  void emptyCache(MempoolId_t pool) override { upstream_->emptyCache(pool); }
#else
  void emptyCache() override { upstream_->emptyCache(); }
#endif
  void enablePeerAccess(DeviceIndex device, DeviceIndex peer) override {
    upstream_->enablePeerAccess(device, peer);
  }
  DataPtr allocate(size_t bytes) override { return upstream_->allocate(bytes); }
  DeleterFnPtr raw_deleter() const override { return upstream_->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    upstream_->copy_data(to, from, bytes);
  }
  void* raw_alloc(size_t bytes) override { return upstream_->raw_alloc(bytes); }
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override {
    return upstream_->raw_alloc_with_stream(bytes, stream);
  }
  void raw_delete(void* block) override { upstream_->raw_delete(block); }
  void recordStream(const DataPtr& block, CUDAStream stream) override {
    upstream_->recordStream(block, stream);
  }
#ifdef PGMO_HAS_recordStream_c10_Stream
  void recordStream(const DataPtr& block, c10::Stream stream) override {
    upstream_->recordStream(block, stream);
  }
#endif
  void* getBaseAllocation(void* block, size_t* bytes) override {
    return upstream_->getBaseAllocation(block, bytes);
  }
  ShareableHandle shareIpcHandle(void* block) override { return upstream_->shareIpcHandle(block); }
  void beginAllocateToPool(DeviceIndex device, MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    upstream_->beginAllocateToPool(device, pool, std::move(filter));
  }
  void endAllocateToPool(DeviceIndex device, MempoolId_t pool) override {
    upstream_->endAllocateToPool(device, pool);
  }
#ifdef PGMO_HAS_allocateWithAddress
  DataPtr allocateWithAddress(size_t bytes, void* address) override {
    return upstream_->allocateWithAddress(bytes, address);
  }
#endif
#ifdef PGMO_HAS_markCaptureBegin
  void markCaptureBegin(DeviceIndex device) override { upstream_->markCaptureBegin(device); }
#endif
#ifdef PGMO_HAS_markCaptureEnd
  void markCaptureEnd(DeviceIndex device) override { upstream_->markCaptureEnd(device); }
#endif

 private:
  CUDAAllocator* upstream_;
};

}  // namespace

extern "C" void* make_adapter(void* upstream) {
  return new Adapter(static_cast<CUDAAllocator*>(upstream));
}

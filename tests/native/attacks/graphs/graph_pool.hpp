// A pool of graphs as a program and its allocator use it. Captures request and free blocks. Replays
// write and read them. The program reads and writes blocks that captures have left alive.
//
// Expected values are kept by address, as if each pool had pages of its own. Values in blocks that
// a graph frees are forgotten after its replay, because no later read depends on them.

#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "adapters/cuda/graphs/chains.hpp"
#include "graphs/lagging_memory.hpp"
#include "random.hpp"

namespace pgmo::test {

class GraphPool {
 public:
  using Address = graphs::Address;
  using Stream = graphs::Stream;

  GraphPool(Random& random, LaggingMemory& memory, graphs::Chains& chains, graphs::PoolId id)
      : random_(random), memory_(memory), chains_(chains), id_(id), stream_(any_stream()) {}

  bool capturing() const { return capturing_; }
  bool gone() const { return gone_; }
  std::size_t graphs() const { return graphs_.size(); }
  std::uint64_t replays() const { return replays_; }

  // Begin a capture. Return false if the device is full.
  bool begin_capture(graphs::GraphId graph) {
    if (!chains_.begin(id_, graph, living())) return false;
    capturing_ = true;
    graphs_.push_back({graph, {}, {}});
    made_.clear();
    return true;
  }

  // Request, use and free blocks. Return false if the device is full.
  bool capture_some() {
    for (auto left = random_.between(1, 6); left > 0; --left) {
      if (made_.empty() || random_.chance(0.6)) {
        const std::size_t bytes = words(random_.between(1, 10));
        const Address at = allocate(bytes);
        if (at == 0) return false;
        made_.push_back(at);
        if (random_.chance(0.9)) use(true, at);
      } else if (random_.chance(0.5)) {
        use(random_.chance(0.3), random_.pick(made_));
      } else {
        free_made(static_cast<std::size_t>(random_.between(0, count(made_) - 1)));
      }
      if (!spanning_.empty() && random_.chance(0.4)) use(false, random_.pick(spanning_));
      if (!outputs_.empty() && random_.chance(0.4)) {
        use(random_.chance(0.3), random_.pick(outputs_));
      }
    }
    return true;
  }

  // End the capture. Return false if the device is full.
  bool end_capture() {
    capturing_ = false;
    for (const Address at : spanning_) {
      if (random_.chance(0.2)) {
        outputs_.push_back(at);  // a later capture does not free it
      } else {
        use(false, at);
        free_in_capture(at);
      }
    }
    spanning_.clear();
    while (!made_.empty()) {
      const Address at = made_.back();
      if (random_.chance(0.5)) {
        free_made(made_.size() - 1);
      } else {
        (random_.chance(0.5) ? outputs_ : spanning_).push_back(at);
        made_.pop_back();
      }
    }
    if (!chains_.end(id_, living())) return false;
    while (random_.chance(0.6)) access();
    return true;
  }

  // Replay the next graph, or the first one again. Return false if the device is full.
  bool replay() {
    if (next_ == graphs_.size() || random_.chance(0.05)) next_ = 0;
    change_stream();
    const Graph& graph = graphs_[next_];
    if (!unseen_ && !chains_.before_replay(graph.id, stream_)) return false;
    // A request of another thread has failed, so pages are lent.
    if (random_.chance(0.05)) (void)chains_.lend();
    for (const auto& [writes, block] : graph.uses) touch(writes, block);
    for (const auto& block : graph.freed) forget(block);
    if (!unseen_) chains_.after_replay(graph.id, stream_);
    ++next_;
    ++replays_;
    return true;
  }

  // Read, write or free a tensor, as the program does. A freed tensor keeps its contents until its
  // pool uses the memory again.
  void access() {
    if (outputs_.empty()) return;
    change_stream();
    if (!freed_.empty() && random_.chance(0.2)) touch(false, random_.pick(freed_));
    const auto at = static_cast<std::size_t>(random_.between(0, count(outputs_) - 1));
    const LiveBlock block{outputs_[at], live_.at(outputs_[at])};
    touch(random_.chance(0.3), block);
    if (!random_.chance(0.1)) return;
    freed_.push_back(block);
    live_.erase(block.address);
    outputs_.erase(outputs_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  // Launch graphs without a report from now on.
  bool launch_unseen() {
    if (graphs_.empty()) return true;
    if (!chains_.keep_apart(graphs_.back().id)) return false;
    unseen_ = true;
    return true;
  }

  void destroy() {
    while (!outputs_.empty() && random_.chance(0.7)) access();
    chains_.release(id_);
    for (const auto& [base, bytes] : segments_) {
      require(chains_.deallocate(base), "a segment is unknown");
    }
    gone_ = true;
  }

 private:
  using LiveBlock = graphs::LiveBlock;
  struct Use {
    bool writes;
    LiveBlock block;
  };
  struct Graph {
    graphs::GraphId id;
    std::vector<Use> uses;
    std::vector<LiveBlock> freed;
  };

  template <typename T>
  static std::int64_t count(const std::vector<T>& all) {
    return static_cast<std::int64_t>(all.size());
  }
  static std::size_t words(std::int64_t number) {
    return static_cast<std::size_t>(number) * LaggingMemory::kWord;
  }
  Stream any_stream() {
    return static_cast<Stream>(random_.between(0, LaggingMemory::kStreams - 1));
  }

  void change_stream() {
    if (!random_.chance(0.1)) return;
    const Stream other = any_stream();
    if (other != stream_) memory_.order(other, stream_);
    stream_ = other;
  }

  std::vector<LiveBlock> living() const {
    std::vector<LiveBlock> all;
    for (const auto& [at, bytes] : live_) all.push_back({at, bytes});
    return all;
  }

  // Allocate by first fit in the pool's segments. Return 0 if the device is full.
  Address allocate(std::size_t bytes) {
    for (const auto& [base, size] : segments_) {
      Address at = base;
      for (auto next = live_.lower_bound(base);; ++next) {
        const bool last = next == live_.end() || next->first >= base + size;
        const Address end = last ? base + size : next->first;
        if (end - at >= bytes) return live_[at] = bytes, at;
        if (last) break;
        at = next->first + next->second;
      }
    }
    const std::size_t pages = (bytes + LaggingMemory::kPage - 1) / LaggingMemory::kPage;
    const std::size_t size =
        (pages + static_cast<std::size_t>(random_.between(0, 2))) * LaggingMemory::kPage;
    const Address base = chains_.allocate(id_, size);
    if (base == 0) return 0;
    segments_[base] = size;
    live_[base] = bytes;
    return base;
  }

  void use(bool writes, Address at) { graphs_.back().uses.push_back({writes, {at, live_.at(at)}}); }

  void free_made(std::size_t number) {
    free_in_capture(made_[number]);
    made_.erase(made_.begin() + static_cast<std::ptrdiff_t>(number));
  }

  void free_in_capture(Address at) {
    graphs_.back().freed.push_back({at, live_.at(at)});
    live_.erase(at);
  }

  void touch(bool writes, const LiveBlock& block) {
    for (Address at = block.address; at < block.address + block.bytes; at += LaggingMemory::kWord) {
      const auto known = values_.find(at);
      if (writes) {
        memory_.write(stream_, at, values_[at] = ++newest_);
      } else if (known != values_.end()) {
        memory_.expect(stream_, at, known->second);
      }
    }
  }

  void forget(const LiveBlock& block) {
    const auto end = values_.lower_bound(block.address + block.bytes);
    values_.erase(values_.lower_bound(block.address), end);
  }

  Random& random_;
  LaggingMemory& memory_;
  graphs::Chains& chains_;
  const graphs::PoolId id_;
  Stream stream_;
  std::vector<Graph> graphs_;
  std::map<Address, std::size_t> segments_;
  std::map<Address, std::size_t> live_;
  std::vector<Address> made_;      // blocks of this capture
  std::vector<Address> spanning_;  // blocks that a later capture frees
  std::vector<Address> outputs_;   // tensors of the program
  std::vector<LiveBlock> freed_;   // tensors that the program has freed
  std::map<Address, std::uint64_t> values_;
  std::uint64_t newest_ = 0;
  std::uint64_t replays_ = 0;
  std::size_t next_ = 0;
  bool capturing_ = false;
  bool unseen_ = false;
  bool gone_ = false;
};

}  // namespace pgmo::test

// Captures and replays of graphs whose pools share pages.
//
//     capture A   [ a a a ][ out ]    freed in the capture: temporaries (a); alive at its end: out
//     capture B   [ b b b b ][ out ]  B's temporaries share the pages of A's temporaries
//     replay  A on stream 1 ──▶ replay B on stream 2 waits for A's event
//
// The graphs of one pool are a chain. One capture may leave a block alive that a later capture
// frees. For example, a forward graph leaves activations alive, which the backward graph frees. The
// contents of the block are needed from the replay of the first graph to the replay of the second.
// Between these replays, the block's places are *open*.
//
// Rules of safety:
//
// 1. A page with a block that no capture frees belongs to one chain alone.
//
// 2. No replay begins while a page that it may write is open for another chain: the places of the
// replayed chain move to other pages first.
//
// 3. A replay waits for the last replays of chains with which it shares pages, on other streams.
//
// 4. A block that is alive at the end of a capture is *undecided*: a later capture may free it. If
// no capture has freed the block until the next replay of any graph, the block survives: it moves,
// with its contents, to pages of its own. The program may write to an undecided block, so the end
// of a capture waits for the device.
//
// 5. Pages are lent only if no replay is about to be launched and all work is completed. A chain
// gets its pages back before it is replayed, captured or moved.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "adapters/cuda/graphs/chain.hpp"
#include "adapters/cuda/graphs/driver.hpp"
#include "adapters/cuda/graphs/mappings.hpp"

namespace pgmo::graphs {

// Chains of one device. Every call takes the lock, which is held while the driver is called.
// Between `before_replay` and `after_replay` the caller launches the graph. No other thread may
// replay a graph or end a capture meanwhile, which a lock in
// pgmo/allocator/adapters/hooks/graph_replays.py ensures.
class Chains {
 public:
  Chains(Driver& driver, std::size_t page) : driver_(driver), mappings_(driver, page) {}

  std::mutex& mutex() noexcept { return mutex_; }  // for forks

  // Return the bytes of torch's segments that have no memory of their own, because pages are shared
  // or lent. The counter lives as long as the chains.
  const std::atomic<std::int64_t>& saved() const noexcept { return saved_; }

  // Return whether a segment begins, or once began, at the address.
  bool owns(Address base) {
    const std::lock_guard guard(mutex_);
    return mappings_.owns(base);
  }

  // Return whether the pool has a chain.
  bool knows(const PoolId& pool) {
    const std::lock_guard guard(mutex_);
    return chains_.contains(pool);
  }

  // Lend pages: give back to the device all pages whose contents neither a later replay nor the
  // program needs. Return their bytes; 0 if there are none, during a capture or a launch, or if the
  // device cannot be waited for.
  std::size_t lend() {
    const std::lock_guard guard(mutex_);
    const bool capturing = std::any_of(chains_.begin(), chains_.end(),
                                       [](const auto& one) { return one.second.capturing; });
    if (launching_ != 0 || capturing || mappings_.lost() || !mappings_.any(is_idle)) return 0;
    if (!driver_.settle(true)) return 0;
    const std::size_t lent = mappings_.lend(is_idle);
    lent_ += lent;
    count();
    return lent * mappings_.page();
  }

  // Begin a capture of a graph, and get the pool's lent pages back. `alive`: the pool's live
  // blocks. The program has freed all blocks that the last capture left alive and that are not in
  // `alive`. Return false if the device is full or refuses.
  bool begin(const PoolId& pool, GraphId graph, const std::vector<LiveBlock>& alive) {
    const std::lock_guard guard(mutex_);
    collect();
    count();
    Chain& chain = chains_[pool];
    const bool whole = restore(chain);
    if (!whole) return false;
    std::erase_if(chain.living, [&](const LiveBlock& block) {
      return std::find(alive.begin(), alive.end(), block) != alive.end();
    });
    for (GraphPlace* place : places_under(chain, chain.living, mappings_.page()))
      place->freed_outside = true;
    chain.living.clear();
    chain.capturing = true;
    chain.captures.push_back({graph});
    graphs_[graph] = &chain;
    return true;
  }

  // Map a new segment, on pages of other chains where possible. Return 0 if the device refuses.
  Address allocate(const PoolId& pool, std::size_t bytes) {
    const std::lock_guard guard(mutex_);
    collect();
    Chain& chain = chains_[pool];
    auto segment = mappings_.make(chain, bytes, [&](const GraphPage& page) {
      return !chain.apart && may_share(page, chain);
    });
    if (segment == nullptr) return 0;
    for (GraphPlace& place : segment->places) place.own = chain.apart;
    const Address base = segment->base;
    chain.segments.emplace(base, std::move(segment));
    count();
    return base;
  }

  // Unmap a segment. If a capture prevents waiting for the device, a later call unmaps it. Return
  // false if the segment is unknown.
  bool deallocate(Address base) {
    const std::lock_guard guard(mutex_);
    for (auto& [pool, chain] : chains_) {
      if (!chain.segments.contains(base)) continue;
      dead_.emplace_back(&chain, base);
      collect();
      count();
      return true;
    }
    return false;
  }

  // End the capture. `alive`: the pool's live blocks. Return false if the device could not be
  // waited for, is full or refuses. The caller must then not use the graph.
  bool end(const PoolId& pool, const std::vector<LiveBlock>& alive) {
    const std::lock_guard guard(mutex_);
    Chain& chain = chains_[pool];
    if (!chain.capturing) return true;
    chain.capturing = false;
    GraphCapture& capture = chain.captures.back();
    capture.alive = places_under(chain, alive, mappings_.page());
    chain.living = alive;
    for_each_place(chain, [&](GraphPlace& place) {
      const auto& now = capture.alive;
      const bool lives = std::binary_search(now.begin(), now.end(), &place);
      if (place.alive && !lives && !place.freed_outside) capture.closes.push_back(&place);
      place.alive = lives;
      place.undecided = !place.own && (lives || place.freed_outside);
      place.kept = place.kept || lives || place.freed_outside;
      chain.undecided = chain.undecided || place.undecided;
    });
    // Other chains may have been replayed during the capture. So wait for their work, and move live
    // places off pages that are open for these chains.
    return (partners(chain).empty() || driver_.settle(false)) &&
           separate(
               places_on_open_pages(chain, [](const GraphPlace& place) { return place.alive; }),
               Temporaries::kShare);
  }

  // Give the chain, if there is one, pages of its own from now on. Return false if the device could
  // not be waited for, is full or refuses.
  bool keep_apart(const PoolId& pool) {
    const std::lock_guard guard(mutex_);
    const auto found = chains_.find(pool);
    return found == chains_.end() || keep_apart(found->second);
  }
  bool keep_apart(GraphId graph) {
    const std::lock_guard guard(mutex_);
    const auto found = graphs_.find(graph);
    return found == graphs_.end() || keep_apart(*found->second);
  }

  // Prepare a replay on a stream: get lent pages back, move off pages that are open for other
  // chains, and make the stream wait for replays of chains that share pages with this one. Return
  // false if the device has too few pages or refuses. The caller must then not launch the graph.
  bool before_replay(GraphId graph, Stream stream) {
    const std::lock_guard guard(mutex_);
    const auto found = graphs_.find(graph);
    if (found == graphs_.end()) {
      ++launching_;
      return true;
    }
    Chain& chain = *found->second;
    if (!restore(chain) || !decide_all() || !leave_open_pages(chain) || mappings_.lost())
      return false;
    if (!wait_for_partners(chain, stream)) return false;
    for (const GraphCapture& capture : chain.captures) {
      if (capture.graph != graph) continue;
      for (GraphPlace* place : capture.closes) set_open(*place, false);
      for (GraphPlace* place : capture.alive) set_open(*place, !place->own);
    }
    ++launching_;
    return true;
  }

  // Record that the graph was launched on the stream, or that the launch failed.
  void after_replay(GraphId graph, Stream stream) {
    const std::lock_guard guard(mutex_);
    if (launching_ != 0) --launching_;
    const auto found = graphs_.find(graph);
    if (found == graphs_.end() || partners(*found->second).empty()) return;
    const Event event = driver_.record(stream);
    if (event == 0) {
      (void)driver_.settle(false);
      return;
    }
    Event& last = found->second->last[stream];
    if (last != 0) driver_.discard(last);
    last = event;
  }

  // Record that no graph uses the pool any more. The pool's live blocks and their pages stay valid.
  void release(const PoolId& pool) {
    const std::lock_guard guard(mutex_);
    const auto found = chains_.find(pool);
    if (found == chains_.end()) return;
    Chain& chain = found->second;
    chain.capturing = false;
    for (const GraphCapture& capture : chain.captures) graphs_.erase(capture.graph);
    chain.captures.clear();
    for_each_place(chain, [](GraphPlace& place) { set_open(place, false); });
    if (chain.segments.empty())
      forget(found);
    else
      released_.push_back(pool);
  }

  // Grant access to all segments again, because another device has become a peer.
  void grant_again() {
    const std::lock_guard guard(mutex_);
    for (const auto& [pool, chain] : chains_) {
      for (const auto& [base, segment] : chain.segments) {
        for (const GraphPlace& place : segment->places) {
          if (!place.page->lent) (void)driver_.grant(place.address, mappings_.page());
        }
      }
    }
  }

  SharingFigures figures() {
    const std::lock_guard guard(mutex_);
    return {mappings_.held() * mappings_.page(), mappings_.mapped() * mappings_.page(), moves_,
            waits_, lent_};
  }

 private:
  using Iterator = std::map<PoolId, Chain>::iterator;

  // Update `saved_`. Segments that torch has released do not count.
  void count() noexcept {
    std::size_t known = mappings_.mapped();
    for (const auto& [chain, base] : dead_) known -= chain->segments.at(base)->places.size();
    const auto more =
        static_cast<std::int64_t>(known) - static_cast<std::int64_t>(mappings_.held());
    saved_.store(more * static_cast<std::int64_t>(mappings_.page()), std::memory_order_relaxed);
  }

  // Return the chains that share a page with this chain.
  const std::vector<Chain*>& partners(Chain& chain) {
    if (chain.version == mappings_.version()) return chain.partners;
    chain.partners.clear();
    for_each_place(chain, [&](const GraphPlace& place) {
      for (const GraphPlace* other : place.page->places) {
        if (other->chain != &chain) chain.partners.push_back(other->chain);
      }
    });
    std::sort(chain.partners.begin(), chain.partners.end());
    const auto end = std::unique(chain.partners.begin(), chain.partners.end());
    chain.partners.erase(end, chain.partners.end());
    chain.version = mappings_.version();
    return chain.partners;
  }

  // Exchange the shared pages of survivors for unshared pages of temporaries, as long as both
  // exist. Return false if the device could not be waited for or refuses.
  bool exchange(const std::vector<GraphPlace*>& survivors,
                const std::vector<GraphPlace*>& unshared) {
    auto next = unshared.begin();
    for (GraphPlace* place : survivors) {
      if (next == unshared.end()) return true;
      if (!place->page->shared()) continue;
      if (next == unshared.begin() && !driver_.settle(false)) return false;
      if (!mappings_.exchange(*place, **next++)) return false;
      ++moves_;
    }
    return true;
  }

  // Move these places, with their contents, off pages that they share, to new pages. With `kShare`,
  // temporaries may move to pages of other chains' temporaries. Return false if the device could
  // not be waited for, is full or refuses.
  enum class Temporaries { kAlone, kShare };
  bool separate(const std::vector<GraphPlace*>& places,
                Temporaries temporaries = Temporaries::kAlone) {
    bool settled = false;
    for (GraphPlace* place : places) {
      if (!place->page->shared()) continue;
      settled = settled || driver_.settle(false);
      const bool shares = temporaries == Temporaries::kShare && !place->kept;
      const bool moved = settled && mappings_.move(*place, [&](const GraphPage& page) {
        return shares && suits_temporary(page, *place);
      });
      count();
      if (!moved) return false;
      ++moves_;
    }
    return true;
  }

  // Get the chain's lent pages back. Return false if the device is full or refuses.
  bool restore(Chain& chain) {
    if (!mappings_.any_lent()) return true;
    bool all = true;
    for_each_place(chain, [&](const GraphPlace& place) { all = all && mappings_.restore(place); });
    count();
    return all;
  }

  bool keep_apart(Chain& chain) {
    if (!restore(chain)) return false;
    chain.apart = true;
    std::vector<GraphPlace*> all;
    for_each_place(chain, [&](GraphPlace& place) { all.push_back(&place); });
    if (!separate(all)) return false;
    for (GraphPlace* place : all) {
      set_open(*place, false);
      place->own = true;
      place->undecided = false;
    }
    chain.undecided = false;
    return true;
  }

  bool decide_all() {
    return std::all_of(chains_.begin(), chains_.end(), [&](auto& one) {
      Chain& chain = one.second;
      return !chain.undecided || decide(chain);
    });
  }

  // Give the chain's survivors pages of their own. Survivors are places of undecided blocks that no
  // capture has freed, or that the program freed between captures. Return false if the device
  // cannot be waited for, is full or refuses.
  bool decide(Chain& chain) {
    std::vector<GraphPlace*> survivors;
    std::vector<GraphPlace*> unshared;  // temporaries whose page no other chain shares
    for_each_place(chain, [&](GraphPlace& place) {
      if (place.undecided && (place.alive || place.freed_outside)) {
        survivors.push_back(&place);
      } else if (!place.own && !place.open && !place.page->lent && !place.page->shared()) {
        unshared.push_back(&place);
      }
    });
    if (!exchange(survivors, unshared) || !separate(survivors)) return false;
    for (GraphPlace* place : survivors) place->own = true;
    for_each_place(chain, [](GraphPlace& place) { place.undecided = false; });
    for (GraphCapture& capture : chain.captures) {
      std::erase_if(capture.alive, [](const GraphPlace* place) { return place->own; });
      std::erase_if(capture.closes, [](const GraphPlace* place) { return place->own; });
    }
    chain.undecided = false;
    return true;
  }

  // Return the chain's places on pages where another chain may have contents. Skip places for which
  // `concerned` returns false.
  template <typename Concerned>
  std::vector<GraphPlace*> places_on_open_pages(Chain& chain, Concerned&& concerned) {
    const auto& all = partners(chain);
    const auto has_contents = [](const Chain* partner) {
      return partner->open != 0 || partner->undecided;
    };
    std::vector<GraphPlace*> conflicts;
    if (std::none_of(all.begin(), all.end(), has_contents)) return conflicts;
    for_each_place(chain, [&](GraphPlace& place) {
      const auto& mapped = place.page->places;
      const bool open = std::any_of(mapped.begin(), mapped.end(), [&](const GraphPlace* other) {
        return other->chain != &chain && (other->open || other->undecided);
      });
      if (open && concerned(place)) conflicts.push_back(&place);
    });
    return conflicts;
  }

  // Move all places of the chain off pages on which another chain may have contents. Return false
  // if the device cannot be waited for, is full or refuses.
  bool leave_open_pages(Chain& chain) {
    const auto all = [](const GraphPlace&) { return true; };
    if (places_on_open_pages(chain, all).empty()) return true;
    if (!driver_.settle(false)) return false;
    gather(chain);
    return separate(places_on_open_pages(chain, all), Temporaries::kShare);
  }

  // Move the chain's temporaries to the oldest pages of temporaries, and release pages that are
  // then unmapped. Captures leave temporaries on more pages than one chain needs: while the
  // survivors of a capture are undecided, the next capture gets other pages instead of the
  // survivors' pages. Requires that all work of the device is completed. Stops if the device
  // refuses.
  void gather(Chain& chain) {
    if (chain.capturing) return;
    for (auto& [base, segment] : chain.segments) {
      for (GraphPlace& place : segment->places) {
        if (place.own || place.kept) continue;
        GraphPage* const page = mappings_.older_page(
            place, [&](const GraphPage& other) { return suits_temporary(other, place); });
        if (page == nullptr) continue;
        if (!mappings_.move_to(place, *page)) return;
        ++moves_;
      }
    }
    count();
  }

  // Make the stream wait for the partners' last replays on other streams. Return false on failure.
  bool wait_for_partners(Chain& chain, Stream stream) {
    for (Chain* partner : partners(chain)) {
      for (auto at = partner->last.begin(); at != partner->last.end();) {
        const auto [other, event] = *at;
        if (other == stream) {
          ++at;
        } else if (driver_.completed(event)) {
          driver_.discard(event);
          at = partner->last.erase(at);
        } else {
          ++waits_;
          if (!driver_.wait(stream, event) && !driver_.settle(false)) return false;
          ++at;
        }
      }
    }
    return true;
  }

  // Unmap the segments that torch has released, unless a capture prevents waiting for the device.
  void collect() {
    if (dead_.empty() || !driver_.settle(true)) return;
    for (const auto& [chain, base] : dead_) {
      const auto segment = chain->segments.find(base);
      const auto inside = [&](const GraphPlace* place) {
        const auto& places = segment->second->places;
        return place >= places.data() && place < places.data() + places.size();
      };
      for (GraphPlace& place : segment->second->places) set_open(place, false);
      for (GraphCapture& capture : chain->captures) {
        std::erase_if(capture.alive, inside);
        std::erase_if(capture.closes, inside);
      }
      mappings_.remove(*segment->second);
      chain->segments.erase(segment);
    }
    dead_.clear();
    std::erase_if(released_, [&](const PoolId& pool) {
      const auto found = chains_.find(pool);
      if (found == chains_.end()) return true;
      if (!found->second.segments.empty() || !found->second.captures.empty()) return false;
      forget(found);
      return true;
    });
  }

  void forget(Iterator chain) {
    for (const auto& [stream, event] : chain->second.last) driver_.discard(event);
    chains_.erase(chain);
  }

  Driver& driver_;
  std::mutex mutex_;  // guards the following members
  Mappings mappings_;
  std::map<PoolId, Chain> chains_;
  std::map<GraphId, Chain*> graphs_;
  std::vector<std::pair<Chain*, Address>> dead_;  // segments to be unmapped
  std::vector<PoolId> released_;                  // pools to be forgotten after their last segment
  std::atomic<std::int64_t> saved_{0};
  std::size_t moves_ = 0;
  std::size_t waits_ = 0;
  std::size_t lent_ = 0;
  std::size_t launching_ = 0;  // number of replays between `before_replay` and `after_replay`
};

}  // namespace pgmo::graphs

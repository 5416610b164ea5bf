// A device that runs the work of an iteration only after several more iterations were submitted. So
// a stream must wait for a page of another stream. The oracle knows for each page whether its
// streams have waited, and for each wait whether the program implies it.

#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>
#include <vector>

#include "oracle.hpp"
#include "order_oracle.hpp"
#include "ordered_program.hpp"

namespace pgmo::test {

class LaggingDevice final : public pages::DeviceDriver {
 public:
  LaggingDevice(std::size_t lag, std::size_t card) : lag_(lag), card_(card) {}

  // --- the program -------------------------------------------------------------------------------

  void record(std::size_t event, pages::Stream stream) {
    planned_[event] = program_.here(stream);
    events_[event] = real_.here(stream);
  }
  void wait_for(std::size_t event, pages::Stream stream) {
    program_.wait(stream, planned_[event]);
    real_.wait(stream, events_[event]);
    given(stream);
  }
  void wait_on_host(pages::Stream stream) {
    raise(done_, real_.here(stream));
    program_.host_waits(program_.here(stream));
    real_.host_waits(real_.here(stream));
  }

  // Require that the stream may use a new block.
  void uses(pages::Extent block, pages::Stream stream) {
    for_each_page(block, [&](pages::Address, pages::Handle page) {
      require(page != 0, "a block lives where no page is");
      for (pages::Stream other = 0; other < kOrderedStreams; ++other) {
        const std::uint64_t last = pages_.of(page)[other];
        require(last <= done_[other] || real_.is_behind(stream, other, last),
                "a stream is given a page before another one is done with it");
      }
    });
    given(stream);
  }

  // Record that a block was freed, and that these streams have used it until now.
  void used(pages::Extent block, std::uint64_t streams) {
    Counts counts{};
    for (pages::Stream stream = 0; stream < kOrderedStreams; ++stream) {
      if ((streams >> stream & 1) != 0) counts[stream] = real_.count(stream);
    }
    for_each_page(block, [&](pages::Address address, pages::Handle page) {
      pages_.add(page, counts);
      addresses_.add(address, counts);
    });
  }

  // Return whether the stream has completed this many pieces of work.
  bool done(pages::Stream stream, std::uint64_t count) const { return done_[stream] >= count; }
  std::uint64_t count(pages::Stream stream) const { return real_.count(stream); }

  void end_iteration() {
    submitted_.push_back(real_.counts());
    if (submitted_.size() <= lag_) return;
    raise(done_, submitted_.front());
    submitted_.pop_front();
  }

  // --- the pages ---------------------------------------------------------------------------------

  pages::Address reserve(Bytes bytes) noexcept override {
    const pages::Address begin = next_address_;
    next_address_ += (static_cast<pages::Address>(bytes) + kPage - 1) / kPage * kPage;
    return begin;
  }
  bool create(pages::Handle& page) noexcept override {
    if (created_ == card_) return false;
    ++created_;
    page = ++last_page_;
    return true;
  }
  void release(pages::Handle page) noexcept override {
    --created_;
    require_done(pages_.of(page), "a page goes back that is still used");
    pages_.forget(page);
  }
  bool map(pages::Address address, pages::Handle page) noexcept override {
    ++maps;
    require(mapped_.emplace(address, page).second, "two pages at one address");
    return true;
  }
  bool grant(pages::Address, Bytes) noexcept override { return true; }
  void unmap(pages::Address address, Bytes bytes) noexcept override {
    for_each_page({address, bytes}, [&](pages::Address at, pages::Handle) {
      require_done(addresses_.of(at), "a page is unmapped where it is still used");
      addresses_.forget(at);
      mapped_.erase(at);
    });
  }
  pages::Event record(pages::Stream stream) noexcept override {
    recorded_.push_back({stream, real_.here(stream)});
    return recorded_.size();
  }
  bool completed(pages::Event event) noexcept override {
    return is_done(recorded_[event - 1].counts);
  }
  void discard(pages::Event) noexcept override {}
  bool wait(pages::Stream stream, pages::Event event) noexcept override {
    const auto& [other, counts] = recorded_[event - 1];
    ++waits;
    added += !program_.is_behind(stream, other, counts[other]);
    real_.wait(stream, counts);
    return true;
  }
  bool capturing() noexcept override { return false; }

  std::uint64_t maps = 0;
  std::uint64_t waits = 0;
  std::uint64_t added = 0;  // waits that the program does not imply

 private:
  static constexpr pages::Address kPage = OrderedProgram::kPage;

  struct Recorded {
    pages::Stream stream;
    Counts counts;
  };

  void given(pages::Stream stream) {
    program_.given(stream);
    real_.given(stream);
  }

  bool is_done(const Counts& counts) const {
    return std::equal(counts.begin(), counts.end(), done_.begin(), std::less_equal<>());
  }

  void require_done(const Counts& uses, const char* what) const { require(is_done(uses), what); }

  template <typename Visit>
  void for_each_page(pages::Extent block, Visit&& visit) const {
    const pages::Address end = block.end();
    for (pages::Address at = block.address / kPage * kPage; at < end; at += kPage) {
      const auto found = mapped_.find(at);
      visit(at, found == mapped_.end() ? 0 : found->second);
    }
  }

  std::size_t lag_;
  std::size_t card_;  // number of pages of the card
  OrderOracle program_;
  OrderOracle real_;
  std::array<Counts, OrderedProgram::kEvents> planned_{};
  std::array<Counts, OrderedProgram::kEvents> events_{};
  std::vector<Recorded> recorded_;
  std::deque<Counts> submitted_;
  Counts done_{};
  Uses pages_;
  Uses addresses_;
  std::unordered_map<pages::Address, pages::Handle> mapped_;
  pages::Address next_address_ = pages::Address{1} << 40;
  pages::Handle last_page_ = 0;
  std::size_t created_ = 0;
};

}  // namespace pgmo::test

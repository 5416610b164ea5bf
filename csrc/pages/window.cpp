#include "pages/window.hpp"

#include <algorithm>
#include <iterator>

#include "checks.hpp"

namespace pgmo::pages {

void PageWindow::add(Extent range) {
  Gap gap = make();
  put(std::move(gap), range);
}

Address PageWindow::find(Bytes bytes) const noexcept {
  const auto best = by_size_.lower_bound({bytes, 0});
  return best == by_size_.end() ? 0 : best->second;
}

std::size_t PageWindow::find_others(Bytes bytes, std::span<Address> found) const noexcept {
  auto gap = by_size_.lower_bound({bytes, 0});
  if (gap != by_size_.end()) ++gap;
  std::size_t count = 0;
  for (; gap != by_size_.end() && count < found.size(); ++gap) found[count++] = gap->second;
  return count;
}

Address PageWindow::find_outside(Bytes bytes, std::span<const Extent> ranges) const noexcept {
  auto gap = by_size_.lower_bound({bytes, 0});
  for (int looks = 0; gap != by_size_.end() && looks < kMostLooks; ++gap, ++looks) {
    Address from = gap->second;
    const Address end = from + static_cast<Address>(gap->first);
    for (const Extent& range : ranges) {
      if (range.end() <= from) continue;
      if (range.address >= from + static_cast<Address>(bytes)) break;
      from = range.end();
    }
    if (from + static_cast<Address>(bytes) <= end) return from;
  }
  return 0;
}

Address PageWindow::find_within(Bytes bytes, Address begin, Address end) const noexcept {
  auto gap = by_address_.upper_bound(begin);
  if (gap != by_address_.begin()) --gap;
  for (; gap != by_address_.end() && gap->first < end; ++gap) {
    const Address from = std::max(gap->first, begin);
    const Address until = std::min(Extent{gap->first, gap->second}.end(), end);
    if (from + static_cast<Address>(bytes) <= until) return from;
  }
  return 0;
}

void PageWindow::take(Extent range) {
  // A taken range leaves at most two gaps, and one more is needed when the range is given back.
  while (spares_.size() < taken_ + 2) {
    Gap gap = make();
    spares_.push_back(std::move(gap));
  }
  if (spares_.size() == spares_.capacity()) spares_.reserve(2 * spares_.size());
  const auto around = std::prev(by_address_.upper_bound(range.address));
  const Extent whole{around->first, around->second};
  spares_.push_back(pull(around));
  if (whole.address < range.address) {
    put(spare(), {whole.address, static_cast<Bytes>(range.address - whole.address)});
  }
  if (range.end() < whole.end()) {
    put(spare(), {range.end(), static_cast<Bytes>(whole.end() - range.end())});
  }
  ++taken_;
  PGMO_ASSERT_EXPENSIVE(consistent());
}

void PageWindow::give(Extent range) noexcept {
  PGMO_ASSERT(taken_ > 0);
  --taken_;
  auto after = by_address_.lower_bound(range.address);
  Gap gap;
  if (after != by_address_.begin()) {
    const auto before = std::prev(after);
    if (before->first + static_cast<Address>(before->second) == range.address) {
      range = {before->first, before->second + range.bytes};
      gap = pull(before);
    }
  }
  if (after != by_address_.end() && after->first == range.end()) {
    range.bytes += after->second;
    gap = pull(after);  // the node of the gap before, if any, is freed
  }
  if (gap.place.empty()) gap = spare();
  put(std::move(gap), range);
  PGMO_ASSERT_EXPENSIVE(consistent());
}

PageWindow::Gap PageWindow::make() {
  ByAddress one;
  one.emplace(Address{0}, Bytes{0});
  BySize other;
  other.emplace(Bytes{0}, Address{0});
  return {one.extract(one.begin()), other.extract(other.begin())};
}

PageWindow::Gap PageWindow::pull(ByAddress::iterator gap) noexcept {
  BySize::node_type size = by_size_.extract({gap->second, gap->first});
  return {by_address_.extract(gap), std::move(size)};
}

void PageWindow::put(Gap gap, Extent range) noexcept {
  gap.place.key() = range.address;
  gap.place.mapped() = range.bytes;
  gap.size.value() = {range.bytes, range.address};
  by_address_.insert(std::move(gap.place));
  by_size_.insert(std::move(gap.size));
}

PageWindow::Gap PageWindow::spare() noexcept {
  PGMO_ASSERT(!spares_.empty());
  Gap gap = std::move(spares_.back());
  spares_.pop_back();
  return gap;
}

// Return whether gaps do not overlap, and each is indexed by size, too. There must also be enough
// spare nodes to give back all taken ranges.
bool PageWindow::consistent() const noexcept {
  Address end = 0;
  for (const auto& [address, bytes] : by_address_) {
    if (bytes <= 0 || address < end || by_size_.count({bytes, address}) == 0) return false;
    end = Extent{address, bytes}.end();
  }
  return by_size_.size() == by_address_.size() && spares_.size() >= taken_;
}

}  // namespace pgmo::pages

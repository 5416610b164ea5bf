// Intrusive list: elements have `prev` and `next` and are in at most one list. Insertion and
// removal need no memory and cannot fail. The list does not own its elements.

#pragma once

#include <cstddef>

namespace pgmo::pages {

template <typename Element>
class List {
 public:
  bool empty() const noexcept { return first_ == nullptr; }
  std::size_t size() const noexcept { return size_; }
  Element* first() const noexcept { return first_; }

  void push_back(Element& element) noexcept {
    element.prev = last_;
    element.next = nullptr;
    (last_ == nullptr ? first_ : last_->next) = &element;
    last_ = &element;
    ++size_;
  }

  void remove(Element& element) noexcept {
    (element.prev == nullptr ? first_ : element.prev->next) = element.next;
    (element.next == nullptr ? last_ : element.next->prev) = element.prev;
    element.prev = element.next = nullptr;
    --size_;
  }

 private:
  Element* first_ = nullptr;
  Element* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace pgmo::pages

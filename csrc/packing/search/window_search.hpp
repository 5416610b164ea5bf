// Searches the windows of a problem one by one:
//
//    arena ^   +---+              Windows never overlap in time, so each is packed separately. Only
//          |   |   | +---+        the window that needs most matters: it is searched until another
//    bound |---|---|-|---|-+---+  window needs more, or until the search makes no more progress.
//          |   | 0 | | 1 | | 2 |  Windows at the bound are never searched.
//          +---+---+-+---+-+---+> ticks

#pragma once

#include <functional>
#include <memory>

#include "packing/exact/window.hpp"
#include "packing/search/monitor.hpp"

namespace pgmo::packing {

// Number of threads of a search, and the seed of its random numbers.
struct SearchOptions {
  int threads = 1;
  std::uint64_t seed = 0;
};

// Result of a search. If the search was not stopped, the offsets depend only on problem, incumbent,
// seed and number of threads.
struct Improvement {
  Offsets offsets;
  Bytes arena = 0;
};

// Search of one window. Offsets, height and bound are in units.
class WindowSearch {
 public:
  WindowSearch(Offsets offsets, Bytes height, Bytes bound)
      : offsets_(std::move(offsets)), height_(height), bound_(bound) {}
  virtual ~WindowSearch() = default;

  virtual void run() = 0;  // one round
  // Return whether the search has ended.
  virtual bool done() const = 0;

  const Offsets& offsets() const { return offsets_; }
  Bytes height() const { return height_; }
  // Return a height below which the window has no packing, or none that lowers the whole arena.
  Bytes bound() const { return bound_; }

 protected:
  Offsets offsets_;
  Bytes height_, bound_;
};

// A window and its best packing so far, in units.
struct PackedWindow {
  const Window& window;
  Offsets offsets;
  Bytes height;
};

// Called from any thread with a better packing of the window, in units.
using Offer = std::function<void(const Offsets&, Bytes height)>;
using MakeSearch = std::function<std::unique_ptr<WindowSearch>(const PackedWindow&, Offer)>;

// Improve the incumbent, and raise the monitor's bound. Offer every improvement to the monitor, and
// return soon after `monitor.stopped()` becomes true. The result is never worse than the incumbent.
// `make` begins the search of a window.
Improvement search_windows(const Ring& ring, const Offsets& incumbent, Monitor& monitor,
                           const MakeSearch& make);

}  // namespace pgmo::packing

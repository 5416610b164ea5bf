// Bindings of csrc/alignment, for pgmo/profiler/iterations/request_pairs.py.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "alignment/anchors.hpp"
#include "alignment/windows.hpp"
#include "bindings/module.hpp"

namespace py = pybind11;

namespace pgmo {
namespace {

template <typename T>
using Column = py::array_t<T, py::array::c_style>;

template <typename T>
std::span<const T> view(const Column<T>& column) {
  return {column.data(), static_cast<std::size_t>(column.size())};
}

alignment::Requests requests(const Column<std::int64_t>& token, const Column<double>& size,
                             const Column<std::uint64_t>& stream) {
  if (token.size() != size.size() || token.size() != stream.size()) {
    throw py::value_error("the columns of an iteration differ in length");
  }
  return {view(token), view(size), view(stream)};
}

std::span<std::int64_t> rows_for(Column<std::int64_t>& row, py::ssize_t requests) {
  if (row.ndim() != 1 || row.size() != requests) {
    throw py::value_error("row must have one entry for each request of b");
  }
  return {row.mutable_data(), static_cast<std::size_t>(row.size())};
}

Column<std::int64_t> pair_by_anchors(const Column<std::int64_t>& a_token,
                                     const Column<std::int64_t>& b_token, std::size_t off,
                                     Column<std::int64_t> row) {
  const std::span<std::int64_t> rows = rows_for(row, b_token.size());
  const std::span<const std::int64_t> a = view(a_token);
  const std::span<const std::int64_t> b = view(b_token);
  const auto most = static_cast<std::int64_t>(a.size() + b.size());
  const auto numbered = [&](std::int64_t token) { return 0 <= token && token < most; };
  if (!std::all_of(a.begin(), a.end(), numbered) || !std::all_of(b.begin(), b.end(), numbered)) {
    throw py::value_error(
        "a token is negative, or not below the number of requests of both iterations");
  }
  std::vector<alignment::Gap> gaps;
  {
    const py::gil_scoped_release release;
    gaps = alignment::Anchors(a, b, a.size() + b.size(), off).pair(rows);
  }
  Column<std::int64_t> left({static_cast<py::ssize_t>(gaps.size()), py::ssize_t{4}});
  std::int64_t* at = left.mutable_data();
  for (const alignment::Gap& gap : gaps) {
    for (const std::size_t edge : {gap.low, gap.high, gap.left, gap.right}) {
      *at++ = static_cast<std::int64_t>(edge);
    }
  }
  return left;
}

void pair_in_gaps(const Column<std::int64_t>& a_token, const Column<double>& a_size,
                  const Column<std::uint64_t>& a_stream, const Column<std::int64_t>& b_token,
                  const Column<double>& b_size, const Column<std::uint64_t>& b_stream,
                  const Column<double>& ratios, const Column<std::int64_t>& gaps,
                  Column<std::int64_t> row) {
  const alignment::Requests a = requests(a_token, a_size, a_stream);
  const alignment::Requests b = requests(b_token, b_size, b_stream);
  const std::span<std::int64_t> rows = rows_for(row, b_token.size());
  if (gaps.ndim() != 2 || gaps.shape(1) != 4) throw py::value_error("gaps must have shape (g, 4)");
  const auto bounded = [](std::int64_t begin, std::int64_t end, py::ssize_t size) {
    return 0 <= begin && begin <= end && end <= size;
  };
  for (py::ssize_t i = 0; i < gaps.shape(0); ++i) {
    const std::int64_t* gap = gaps.data(i, 0);
    if (!bounded(gap[0], gap[1], a_token.size()) || !bounded(gap[2], gap[3], b_token.size())) {
      throw py::value_error("a gap lies outside of the iterations");
    }
  }
  const std::span<const std::int64_t> all = view(gaps);
  const std::span<const double> common = view(ratios);
  const py::gil_scoped_release release;
  alignment::Windows windows(a, b, common);
  for (std::size_t at = 0; at < all.size(); at += 4) {
    windows.fill({static_cast<std::size_t>(all[at]), static_cast<std::size_t>(all[at + 1]),
                  static_cast<std::size_t>(all[at + 2]), static_cast<std::size_t>(all[at + 3])},
                 rows);
  }
}

}  // namespace

void bind_alignment(py::module_& module) {
  module.def("pair_by_anchors", &pair_by_anchors, py::arg("a_token"), py::arg("b_token"),
             py::arg("off"), py::arg("row").noconvert(),
             R"(Pair requests of two iterations by anchors: sizes that occur equally often in both.

If both iterations have the same number of requests between two anchors, these are paired, too.

Args:
    a_token, b_token: numbers from 0 to n + m - 1, equal for equal size and stream, shapes (n,)
        and (m,).
    off: maximum difference between the two positions of an anchor, in requests.
    row: output, shape (m,): the request of a that is paired with each request of b. Entries of
        unpaired requests are unchanged.

Returns:
    The gaps without anchors, a[low:high] and b[left:right], as rows (low, high, left, right) of
    an array of shape (g, 4).

Raises:
    TypeError: if `row` is not a contiguous array of 64-bit integers.
    ValueError: if shapes do not match, or a token is out of range.)");
  module.def("pair_in_gaps", &pair_in_gaps, py::arg("a_token"), py::arg("a_size"),
             py::arg("a_stream"), py::arg("b_token"), py::arg("b_size"), py::arg("b_stream"),
             py::arg("ratios"), py::arg("gaps"), py::arg("row").noconvert(),
             R"(Pair requests of two iterations in gaps without anchors.

Uses the algorithm of Needleman and Wunsch 1970, in windows that slide along large gaps.

Args:
    a_token, b_token: numbers, equal for equal size and stream, shapes (n,) and (m,).
    a_size, b_size: sizes of the requests in bytes, shapes (n,) and (m,).
    a_stream, b_stream: numbers of streams, shapes (n,) and (m,).
    ratios: common ratios of a size in b to a size in a, shape (k,).
    gaps: a[low:high] and b[left:right] as rows (low, high, left, right), shape (g, 4).
    row: output, shape (m,): the request of a that is paired with each request of b. Entries of
        unpaired requests are unchanged.

Raises:
    TypeError: if `row` is not a contiguous array of 64-bit integers.
    ValueError: if shapes do not match, or a gap is out of range.)");
}

}  // namespace pgmo

// Pairs of requests, for pgmo/profiler/iterations/request_pairs.py.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "alignment/pairing.hpp"
#include "bindings/module.hpp"
#include "heuristics.hpp"

namespace py = pybind11;

namespace pgmo {
namespace {

template <typename T>
using Column = py::array_t<T, py::array::c_style>;

template <typename T>
std::span<const T> view(const Column<T>& column) {
  return {column.data(), static_cast<std::size_t>(column.size())};
}

alignment::Requests requests(const Column<std::int64_t>& token, const Column<std::int64_t>& size,
                             const Column<std::uint64_t>& stream) {
  if (token.size() != size.size() || token.size() != stream.size()) {
    throw py::value_error("the columns of an iteration differ in length");
  }
  return {view(token), view(size), view(stream)};
}

Column<std::int64_t> pair_requests(const Column<std::int64_t>& a_token,
                                   const Column<std::int64_t>& a_size,
                                   const Column<std::uint64_t>& a_stream,
                                   const Column<std::int64_t>& b_token,
                                   const Column<std::int64_t>& b_size,
                                   const Column<std::uint64_t>& b_stream) {
  const alignment::Requests a = requests(a_token, a_size, a_stream);
  const alignment::Requests b = requests(b_token, b_size, b_stream);
  const std::size_t tokens = a.count() + b.count();
  const auto is_numbered = [tokens](std::int64_t token) {
    return 0 <= token && static_cast<std::size_t>(token) < tokens;
  };
  for (const std::span<const std::int64_t> column : {a.token, b.token}) {
    if (!std::all_of(column.begin(), column.end(), is_numbered)) {
      throw py::value_error("tokens are numbered from 0, no more than there are requests");
    }
  }
  Column<std::int64_t> row(b_token.size());
  const std::span<std::int64_t> rows{row.mutable_data(), b.count()};
  {
    const py::gil_scoped_release release;
    alignment::Pairing(a, b, tokens, process_heuristics).pair(rows);
  }
  return row;
}

}  // namespace

void bind_alignment(py::module_& module) {
  module.def("pair_requests", &pair_requests, py::arg("a_token"), py::arg("a_size"),
             py::arg("a_stream"), py::arg("b_token"), py::arg("b_size"), py::arg("b_stream"),
             R"(Pairs the requests of two iterations.

Args:
    a_token, b_token: equal for requests that are alike, numbered from 0, shape (n,), (m,).
    a_size, b_size: bytes, shape (n,), (m,).
    a_stream, b_stream: ordinals of streams, shape (n,), (m,).

Returns:
    For each request of b that of a, or -1, shape (m,).

Raises:
    ValueError: when shapes do not fit, or a token is out of range.)");
}

}  // namespace pgmo

// The callable that replaces CuPy's allocator; see pgmo/allocator/adapters/cupy_allocator.py.
//
// No Python code of pgmo runs for an array, whether it gets a slot or a block of the allocator
// beneath: only `make_room` is Python, and it is called when the allocator beneath has failed.
// Everything here is guarded by the GIL.

#include "bindings/block.hpp"
#include "bindings/module.hpp"

// After Python.h, which they need.
#include <pybind11/stl.h>
#include <structmember.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace pgmo {
namespace {

// Where the requests of one device go while a session is open. Never destroyed: arrays may outlive
// every Python object of ours, and their blocks are the engine's.
class CupyRoute {
 public:
  explicit CupyRoute(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}

  const std::shared_ptr<Engine>& engine() const { return engine_; }

  // The number of a stream, in order of first use; none for more than `kMostStreams`. A handle
  // differs from process to process, and a plan is used in other ones.
  std::optional<std::uint64_t> number(std::intptr_t handle) {
    const auto end = handles_.begin() + known_;
    const auto found = std::find(handles_.begin(), end, handle);
    if (found == handles_.end()) return std::nullopt;
    if (found == end) handles_[static_cast<std::size_t>(known_++)] = handle;
    return static_cast<std::uint64_t>(found - handles_.begin());
  }

  std::optional<std::intptr_t> handle(std::int64_t number) const {
    if (number >= known_) return std::nullopt;
    return handles_[static_cast<std::size_t>(number)];
  }

  void forget_streams() { known_ = 1; }

  std::string advice;

 private:
  static constexpr std::size_t kMostStreams = 64;

  std::shared_ptr<Engine> engine_;
  std::array<std::intptr_t, kMostStreams> handles_{};
  std::ptrdiff_t known_ = 1;  // number 0 is the default stream
};

// CUDA's handles of default streams: the legacy one, which 0 is as well, and the one of each
// thread, which is a different stream in each.
constexpr std::intptr_t kLegacy = 1;
constexpr std::intptr_t kPerThread = 2;

struct Allocator {
  PyObject_HEAD vectorcallfunc call;
  bool stays;
  py::object upstream;
  py::object make_room;
  py::object get_device;
  py::object get_stream;
  py::object is_capturing;
  py::object memory_type;
  py::object pointer_type;
  std::vector<CupyRoute*> routes;  // by device; null where requests are passed on

  std::array<py::object*, 7> references() {
    return {&upstream,     &make_room,   &get_device,  &get_stream,
            &is_capturing, &memory_type, &pointer_type};
  }

  CupyRoute* route(std::size_t device) const {
    return device < routes.size() ? routes[device] : nullptr;
  }
};

PyTypeObject* allocator_type = nullptr;

class AllocatorObject : public py::object {
 public:
  PYBIND11_OBJECT(AllocatorObject, py::object, is_one)

 private:
  static bool is_one(PyObject* object) { return Py_TYPE(object) == allocator_type; }
};

PyObject* ptr_name = nullptr;
PyObject* zero = nullptr;

Allocator& allocator_of(const py::handle& object) {
  return *reinterpret_cast<Allocator*>(object.ptr());
}

py::object checked(PyObject* made) {
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

template <std::size_t kCount>
py::object call_with(const py::object& callable, const std::array<PyObject*, kCount>& arguments) {
  return checked(PyObject_Vectorcall(callable.ptr(), arguments.data(), kCount, nullptr));
}

py::object ptr_of(const py::object& holder) {
  return checked(PyObject_GetAttr(holder.ptr(), ptr_name));
}

std::intptr_t value_of(const py::object& ptr) {
  const std::intptr_t value = PyLong_AsSsize_t(ptr.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return value;
}

// The number of the current stream; none where nothing may be served: while its work is captured,
// as a graph keeps the addresses; on the per-thread default stream; and with too many streams.
std::optional<std::uint64_t> current_stream(Allocator& self, CupyRoute& route,
                                            const py::object& device) {
  const py::object ptr = ptr_of(call_with<1>(self.get_stream, {device.ptr()}));
  const std::intptr_t handle = value_of(ptr);
  if (handle <= kLegacy) return 0;
  if (handle == kPerThread) return std::nullopt;
  if (call_with<1>(self.is_capturing, {ptr.ptr()}).cast<bool>()) return std::nullopt;
  return route.number(handle);
}

// A `cupy.cuda.MemoryPointer` to a block that its owner frees.
py::object point_to(Allocator& self, const void* address, PyObject* size, const py::object& device,
                    const py::object& block) {
  const py::object ptr = checked(PyLong_FromVoidPtr(const_cast<void*>(address)));
  const py::object memory =
      call_with<4>(self.memory_type, {ptr.ptr(), size, block.ptr(), device.ptr()});
  return call_with<2>(self.pointer_type, {memory.ptr(), zero});
}

// Asks the allocator beneath, again for as long as `make_room` finds memory for it.
py::object ask(Allocator& self, CupyRoute& route, PyObject* size) {
  while (true) {
    const py::object upstream = self.upstream;  // may be replaced meanwhile
    try {
      return call_with<1>(upstream, {size});
    } catch (py::error_already_set& error) {
      const bool again =
          self.make_room(py::cast(&route, py::return_value_policy::reference), error.value())
              .cast<bool>();
      if (!again) throw;
    }
  }
}

py::object serve(Allocator& self, CupyRoute& route, PyObject* size, std::size_t bytes,
                 std::uint64_t stream, const py::object& device) {
  Engine& engine = *route.engine();
  if (void* slot = engine.allocate(bytes, stream)) [[likely]] {
    return point_to(self, slot, size, device, make_block(engine, slot, py::object()));
  }
  py::object memory = ask(self, route, size);
  void* address = reinterpret_cast<void*>(value_of(ptr_of(memory)));
  if (!engine.adopt(address, bytes, stream)) return memory;
  const py::object block = make_block(engine, address, memory);
  const py::object given = memory.attr("mem").attr("size");
  return point_to(self, address, given.ptr(), device, block);
}

PyObject* call(PyObject* object, PyObject* const* arguments, std::size_t flags,
               PyObject* names) noexcept {
  Allocator& self = allocator_of(object);
  const auto pass_on = [&] {
    const py::object upstream = self.upstream;  // may be replaced meanwhile
    return PyObject_Vectorcall(upstream.ptr(), arguments, flags, names);
  };
  if (self.routes.empty() || PyVectorcall_NARGS(flags) != 1 || names != nullptr) return pass_on();
  PyObject* const size = arguments[0];
  const Py_ssize_t bytes = PyNumber_AsSsize_t(size, nullptr);
  if (bytes <= 0) {
    PyErr_Clear();  // what is no size is an error of the allocator beneath
    return pass_on();
  }
  try {
    const py::object device = checked(PyObject_CallNoArgs(self.get_device.ptr()));
    CupyRoute* const route = self.route(PyLong_AsSize_t(device.ptr()));
    if (route == nullptr) return pass_on();
    const std::optional<std::uint64_t> stream = current_stream(self, *route, device);
    if (!stream) return pass_on();
    return serve(self, *route, size, static_cast<std::size_t>(bytes), *stream, device)
        .release()
        .ptr();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(object));
  for (const py::object* one : allocator_of(object).references()) Py_VISIT(one->ptr());
  return 0;
}

int clear(PyObject* object) {
  for (py::object* one : allocator_of(object).references()) *one = py::none();
  return 0;
}

void destroy(PyObject* object) {
  PyObject_GC_UnTrack(object);
  Allocator& self = allocator_of(object);
  for (py::object* one : self.references()) one->~object();
  self.routes.~vector();
  PyTypeObject* type = Py_TYPE(object);
  type->tp_free(object);
  Py_DECREF(type);
}

PyTypeObject* make_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(Allocator, call), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
      {Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(&clear)},
      {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
      {Py_tp_members, members},
      {Py_tp_doc, const_cast<char*>("An allocator for `cupy.cuda.set_allocator`.")},
      {0, nullptr}};
  static PyType_Spec spec = {"pgmo._core.CupyAllocator", sizeof(Allocator), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                 Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             slots};
  return reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&spec)).release().ptr());
}

AllocatorObject make_allocator(const py::object& cuda, const py::object& upstream,
                               const py::object& make_room) {
  const AllocatorObject made(checked(allocator_type->tp_alloc(allocator_type, 0)));
  Allocator& self = allocator_of(made);
  for (py::object* one : self.references()) new (one) py::object();
  new (&self.routes) std::vector<CupyRoute*>();
  self.call = &call;
  self.upstream = upstream;
  self.make_room = make_room;
  self.get_device = cuda.attr("runtime").attr("getDevice");
  self.get_stream = cuda.attr("get_current_stream");
  self.is_capturing = cuda.attr("runtime").attr("streamIsCapturing");
  self.memory_type = cuda.attr("UnownedMemory");
  self.pointer_type = cuda.attr("MemoryPointer");
  return made;
}

void attach(const AllocatorObject& allocator, std::size_t device, CupyRoute& route) {
  std::vector<CupyRoute*>& routes = allocator_of(allocator).routes;
  if (device >= routes.size()) routes.resize(device + 1, nullptr);
  routes[device] = &route;
}

void detach(const AllocatorObject& allocator, std::size_t device) {
  std::vector<CupyRoute*>& routes = allocator_of(allocator).routes;
  if (device < routes.size()) routes[device] = nullptr;
  while (!routes.empty() && routes.back() == nullptr) routes.pop_back();
}

template <typename Function, typename... Extra>
py::cpp_function method(const char* name, Function&& function, const Extra&... extra) {
  const py::handle type = reinterpret_cast<PyObject*>(allocator_type);
  return {std::forward<Function>(function), py::name(name), py::is_method(type), extra...};
}

}  // namespace
}  // namespace pgmo

template <>
struct pybind11::detail::handle_type_name<pgmo::AllocatorObject> {
  static constexpr auto name = const_name("CupyAllocator");
};

namespace pgmo {

void bind_cupy_allocator(py::module_& module) {
  allocator_type = make_type();
  ptr_name = checked(PyUnicode_InternFromString("ptr")).release().ptr();
  zero = checked(PyLong_FromLong(0)).release().ptr();

  py::class_<CupyRoute, std::unique_ptr<CupyRoute, py::nodelete>>(
      module, "CupyRoute",
      "The engine and the streams of one device whose requests CuPy makes. Never destroyed.")
      .def(py::init<std::shared_ptr<Engine>>(), py::arg("engine"))
      .def_property_readonly("engine", &CupyRoute::engine)
      .def_readwrite("advice", &CupyRoute::advice, "The text that out-of-memory errors add.")
      .def("handle", &CupyRoute::handle, py::arg("number"),
           "The handle of a stream that has been used; None for others.")
      .def("forget_streams", &CupyRoute::forget_streams, "Numbers the streams anew.");

  py::object type = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(allocator_type));
  const py::object property = py::module_::import("builtins").attr("property");
  type.attr("attach") = method("attach", &attach, py::arg("device"), py::arg("route"),
                               "Sends a device's requests to a route.");
  type.attr("detach") = method("detach", &detach, py::arg("device"),
                               "Passes a device's requests on to the allocator beneath again.");
  type.attr("upstream") = property(
      method(
          "upstream", [](const AllocatorObject& self) { return allocator_of(self).upstream; },
          "The allocator beneath."),
      method(
          "upstream",
          [](const AllocatorObject& self, const py::object& upstream) {
            allocator_of(self).upstream = upstream;
          },
          py::arg("upstream")));
  type.attr("stays") = property(
      method(
          "stays", [](const AllocatorObject& self) { return allocator_of(self).stays; },
          "Whether the program has installed it, so that sessions leave it there."),
      method(
          "stays",
          [](const AllocatorObject& self, bool stays) { allocator_of(self).stays = stays; },
          py::arg("stays")));
  type.attr("serves") = property(method(
      "serves", [](const AllocatorObject& self) { return !allocator_of(self).routes.empty(); },
      "Whether the requests of any device go to a route."));
  module.attr("CupyAllocator") = type;
  module.def("make_cupy_allocator", &make_allocator, py::arg("cuda"), py::arg("upstream"),
             py::arg("make_room"),
             "An allocator for `cupy.cuda.set_allocator`. `cuda` is the module `cupy.cuda`.\n"
             "`make_room` is called with the route and the error of the allocator beneath; it\n"
             "returns whether that is to be asked again.");
}

}  // namespace pgmo

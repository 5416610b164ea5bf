// The callable that replaces CuPy's allocator, see pgmo/allocator/adapters/cupy_allocator.py.
//
// The allocator *beneath* is the allocator that the program used before. No Python code of pgmo
// runs for a request, except `make_room` after the allocator beneath has failed. The GIL guards all
// state here.

#include <dlfcn.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/block.hpp"
#include "bindings/module.hpp"

namespace py = pybind11;

namespace pgmo {
namespace {

// Special stream handles of CUDA: the legacy default stream, and the per-thread default stream,
// which is a different stream in each thread.
constexpr std::intptr_t kLegacy = 1;
constexpr std::intptr_t kPerThread = 2;

PyObject* ptr_name = nullptr;
PyObject* zero = nullptr;

py::object checked(PyObject* made) {
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

py::object call_with(const py::object& callable, const py::object& argument) {
  return checked(PyObject_CallOneArg(callable.ptr(), argument.ptr()));
}

std::intptr_t integer(const py::object& object) {
  const std::intptr_t value = PyLong_AsSsize_t(object.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return value;
}

py::object ptr_of(const py::object& holder) {
  return checked(PyObject_GetAttr(holder.ptr(), ptr_name));
}

// Return the driver's `cuStreamIsCapturing`, or null without CUDA. CuPy's own function releases the
// GIL, which takes longer than the query itself.
using QueryCapture = int (*)(void* stream, int* status);

QueryCapture find_query(const py::object& runtime) {
  if (!py::getattr(runtime, "is_hip", py::bool_(true)).equal(py::bool_(false))) return nullptr;
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY);
  return driver ? reinterpret_cast<QueryCapture>(dlsym(driver, "cuStreamIsCapturing")) : nullptr;
}

// The engine and the streams of one device while a session is open. Never destroyed, because arrays
// in blocks of the engine may outlive all Python objects of pgmo.
class CupyRoute {
 public:
  explicit CupyRoute(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}

  const std::shared_ptr<Engine>& engine() const { return engine_; }

  // Return the number of a stream, in order of first use, or nullopt if there are too many streams.
  // Plans contain numbers, because handles differ between processes.
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

// Constructs objects of a type. It reuses the argument tuple unless another object refers to the
// tuple. On Python 3.12, a new tuple takes a tenth of the time of an allocation.
template <std::size_t kCount>
class Constructor {
 public:
  explicit Constructor(py::object type) : type_(std::move(type)) {}

  py::object operator()(const std::array<PyObject*, kCount>& arguments) {
    // `tuple_` is empty during the call, so that a nested call creates its own tuple.
    py::object tuple = std::exchange(tuple_, py::object());
    if (!tuple) tuple = checked(PyTuple_New(kCount));
    fill(tuple, arguments);
    py::object made = checked(PyObject_Call(type_.ptr(), tuple.ptr(), nullptr));
    if (tuple.ref_count() == 1) {
      std::array<PyObject*, kCount> nothing;
      nothing.fill(Py_None);
      fill(tuple, nothing);
      tuple_ = std::move(tuple);
    }
    return made;
  }

 private:
  static void fill(const py::object& tuple, const std::array<PyObject*, kCount>& items) {
    for (std::size_t at = 0; at < kCount; ++at) {
      PyObject* const before = PyTuple_GET_ITEM(tuple.ptr(), at);
      PyTuple_SET_ITEM(tuple.ptr(), at, Py_NewRef(items[at]));
      Py_XDECREF(before);
    }
  }

  py::object type_;
  py::object tuple_;
};

class CupyAllocator {
 public:
  CupyAllocator(const py::object& cuda, const py::object& beneath, const py::object& make_room)
      : upstream(beneath),
        make_room_(make_room),
        get_device_(cuda.attr("runtime").attr("getDevice")),
        get_stream_(cuda.attr("get_current_stream")),
        default_stream_(cuda.attr("Stream").attr("null")),
        is_capturing_(cuda.attr("runtime").attr("streamIsCapturing")),
        query_capture_(find_query(cuda.attr("runtime"))),
        make_memory_(cuda.attr("UnownedMemory")),
        make_pointer_(cuda.attr("MemoryPointer")) {}

  bool serves() const { return !routes_.empty(); }

  void attach(std::size_t device, CupyRoute* route) {
    if (device >= routes_.size()) routes_.resize(device + 1, nullptr);
    routes_[device] = route;
  }

  void detach(std::size_t device) {
    if (device < routes_.size()) routes_[device] = nullptr;
    while (!routes_.empty() && routes_.back() == nullptr) routes_.pop_back();
  }

  // Return a `cupy.cuda.MemoryPointer`, or an empty object if the caller must forward the request
  // to the allocator beneath.
  py::object allocate(PyObject* size) {
    const Py_ssize_t signed_bytes = PyNumber_AsSsize_t(size, nullptr);
    if (signed_bytes <= 0) {
      PyErr_Clear();  // the allocator beneath raises the error for an invalid size
      return {};
    }
    const auto bytes = static_cast<std::size_t>(signed_bytes);
    const py::object device = checked(PyObject_CallNoArgs(get_device_.ptr()));
    const auto index = static_cast<std::size_t>(integer(device));
    CupyRoute* const route = index < routes_.size() ? routes_[index] : nullptr;
    if (route == nullptr) return {};
    const std::optional<std::uint64_t> stream = current_stream(*route, device);
    if (!stream) return {};
    Engine& engine = *route->engine();
    if (void* slot = engine.allocate(bytes, *stream)) [[likely]] {
      return point_to(slot, size, make_block(engine, slot, py::object()), device);
    }
    py::object memory = ask(*route, size);
    void* address = reinterpret_cast<void*>(integer(ptr_of(memory)));
    if (!engine.adopt(address, bytes, *stream)) return memory;
    const py::object block = make_block(engine, address, memory);
    return point_to(address, py::object(memory.attr("mem").attr("size")).ptr(), block, device);
  }

  py::object upstream;
  bool stays = false;

 private:
  // Return the number of the current stream. Return nullopt on the per-thread default stream,
  // during a capture (a graph keeps its addresses), and for streams beyond the first kMostStreams.
  std::optional<std::uint64_t> current_stream(CupyRoute& route, const py::object& device) {
    const py::object stream = call_with(get_stream_, device);
    if (stream.is(default_stream_)) [[likely]]
      return 0;
    const py::object ptr = ptr_of(stream);
    const std::intptr_t handle = integer(ptr);
    if (handle <= kLegacy) return 0;
    if (handle == kPerThread || is_capturing(ptr, handle)) return std::nullopt;
    return route.number(handle);
  }

  // Return whether the stream is being captured. If the driver does not answer with a plain no,
  // call CuPy, which raises errors of the query.
  bool is_capturing(const py::object& ptr, std::intptr_t handle) {
    int status = 0;
    const bool is_plain_no = query_capture_ != nullptr &&
                             query_capture_(reinterpret_cast<void*>(handle), &status) == 0 &&
                             status == 0;
    return !is_plain_no && py::bool_(call_with(is_capturing_, ptr));
  }

  // Return a `cupy.cuda.MemoryPointer` to a block.
  py::object point_to(void* address, PyObject* size, const py::object& block,
                      const py::object& device) {
    const py::object ptr = checked(PyLong_FromVoidPtr(address));
    const py::object memory = make_memory_({ptr.ptr(), size, block.ptr(), device.ptr()});
    return make_pointer_({memory.ptr(), zero});
  }

  // Call the allocator beneath. After an error, call it again if `make_room` returns true.
  py::object ask(CupyRoute& route, PyObject* size) {
    while (true) {
      const py::object beneath = upstream;  // a copy, because the call may replace it
      try {
        return checked(PyObject_CallOneArg(beneath.ptr(), size));
      } catch (py::error_already_set& error) {
        const py::object at = py::cast(&route, py::return_value_policy::reference);
        if (!py::bool_(make_room_(at, error.value()))) throw;
      }
    }
  }

  py::object make_room_;
  py::object get_device_;
  py::object get_stream_;
  py::object default_stream_;
  py::object is_capturing_;
  QueryCapture query_capture_;
  Constructor<4> make_memory_;
  Constructor<2> make_pointer_;
  std::vector<CupyRoute*> routes_;  // by device, not owned; null: forward
};

// --- as a Python object -------------------------------------------------------------------------

// Return the allocator in a Python object; null while the object is constructed.
CupyAllocator* allocator_of(PyObject* self) {
  return static_cast<CupyAllocator*>(
      reinterpret_cast<py::detail::instance*>(self)->simple_value_holder[0]);
}

PyObject* call(PyObject* self, PyObject* const* arguments, std::size_t flags,
               PyObject* names) noexcept {
  CupyAllocator& allocator = *allocator_of(self);
  try {
    if (allocator.serves() && PyVectorcall_NARGS(flags) == 1 && names == nullptr) {
      py::object memory = allocator.allocate(arguments[0]);
      if (memory) return memory.release().ptr();
    }
    const py::object beneath = allocator.upstream;  // a copy, because the call may replace it
    return PyObject_Vectorcall(beneath.ptr(), arguments, flags, names);
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

PyObject* make_instance(PyTypeObject* type, Py_ssize_t items) {
  PyObject* made = PyType_GenericAlloc(type, items);
  if (made != nullptr) {
    char* const place = reinterpret_cast<char*>(made) + type->tp_vectorcall_offset;
    *reinterpret_cast<vectorcallfunc*>(place) = &call;
  }
  return made;
}

// Visit only the allocator beneath, which may refer to this object. CuPy's functions and types do
// not refer to it.
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (CupyAllocator* const allocator = allocator_of(self)) Py_VISIT(allocator->upstream.ptr());
  return 0;
}

int clear(PyObject* self) {
  allocator_of(self)->upstream = py::none();
  return 0;
}

// Add vectorcall and garbage collection, which pybind11 does not provide.
void set_up(PyHeapTypeObject* heap_type) {
  PyTypeObject& type = heap_type->ht_type;
  type.tp_vectorcall_offset = type.tp_basicsize;
  type.tp_basicsize += static_cast<Py_ssize_t>(sizeof(vectorcallfunc));
  type.tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC;
  type.tp_call = &PyVectorcall_Call;
  type.tp_alloc = &make_instance;
  type.tp_traverse = &traverse;
  type.tp_clear = &clear;
}

}  // namespace

void bind_cupy_allocator(py::module_& module) {
  ptr_name = checked(PyUnicode_InternFromString("ptr")).release().ptr();
  zero = checked(PyLong_FromLong(0)).release().ptr();

  py::class_<CupyRoute, std::unique_ptr<CupyRoute, py::nodelete>>(
      module, "CupyRoute",
      "Engine and streams of one device on which CuPy allocates. Never destroyed.")
      .def(py::init<std::shared_ptr<Engine>>(), py::arg("engine"))
      .def_property_readonly("engine", &CupyRoute::engine)
      .def_readwrite("advice", &CupyRoute::advice, "Text to add to out-of-memory errors.")
      .def("handle", &CupyRoute::handle, py::arg("number"),
           "Return the handle of the stream with this number; None if no stream has the number.")
      .def("forget_streams", &CupyRoute::forget_streams,
           "Forget the numbers of all streams except the default stream, whose number is 0.");

  py::class_<CupyAllocator>(module, "CupyAllocator", py::is_final(), py::custom_type_setup(&set_up),
                            "Allocator for `cupy.cuda.set_allocator`.")
      .def(py::init<py::object, py::object, py::object>(), py::arg("cuda"), py::arg("upstream"),
           py::arg("make_room"),
           "Wrap the program's own allocator `upstream`. `cuda` is the module `cupy.cuda`.\n"
           "`make_room` is called with the route and the error of `upstream`, and returns\n"
           "whether to call `upstream` again.")
      .def_readwrite("upstream", &CupyAllocator::upstream)
      .def_readwrite(
          "stays", &CupyAllocator::stays,
          "True if the program itself has installed this allocator, so that sessions do not\n"
          "remove it.")
      .def_property_readonly("serves", &CupyAllocator::serves, "True if any device has a route.")
      .def("attach", &CupyAllocator::attach, py::arg("device"), py::arg("route").none(false),
           "Send a device's requests to a route.")
      .def("detach", &CupyAllocator::detach, py::arg("device"),
           "Send a device's requests to `upstream` again.");
}

}  // namespace pgmo

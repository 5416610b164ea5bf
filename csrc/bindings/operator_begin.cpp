// The C function that calls Python before an operator; see csrc/adapters/torch_operators.hpp.
//
//     main thread    operator ──▶ begin_operator ──▶ Python: Ctrl-C, a signal handler raises
//                             ◀── kHidden            the error is kept
//                    returns to Python ────────────▶ the error is raised
//
// No error can pass through an operator, and a callback of ctypes would print and drop the error.
// Ctrl-C would then not end the script, because in a backward pass on the CPU, the main thread runs
// Python code only in these callbacks. The GIL guards all state here.

#include <cstdint>
#include <utility>

#include "bindings/module.hpp"

namespace py = pybind11;

namespace pgmo {
namespace {

constexpr int kHidden = 1;  // as in torch_operators.hpp

PyObject* function = nullptr;  // the Python function
unsigned long main_thread = 0;
PyObject* kept = nullptr;  // an error to be raised on the main thread

bool is_finalizing() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

int raise_kept(void*) noexcept {
  PyObject* const error = std::exchange(kept, nullptr);
  if (error == nullptr) return 0;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(error);
  return -1;
}

// On the main thread, keep the pending error, and raise it when Python runs the program's code
// again. Its traceback is dropped, because it refers to the modules that are running. On other
// threads, print the error.
void keep_error() noexcept {
  PyObject* type = nullptr;
  PyObject* error = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &error, &traceback);
  PyErr_NormalizeException(&type, &error, &traceback);
  if (PyThread_get_thread_ident() == main_thread && Py_AddPendingCall(raise_kept, nullptr) == 0) {
    PyException_SetTraceback(error, Py_None);
    kept = error;
    Py_XDECREF(type);
    Py_XDECREF(traceback);
  } else {  // Not from a signal handler: a bug of pgmo, which must not end the program.
    PyErr_Restore(type, error, traceback);
    PyErr_WriteUnraisable(function);
  }
}

int begin_operator(const char* name, const char* overload, std::int64_t nodes) noexcept {
  if (Py_IsInitialized() == 0 || is_finalizing()) return kHidden;  // Python would end this thread
  const PyGILState_STATE gil = PyGILState_Ensure();
  int answer = kHidden;
  if (function != nullptr && kept == nullptr && PyErr_Occurred() == nullptr) {
    PyObject* const called = function;  // `function` may be replaced during the call
    Py_INCREF(called);
    const auto count = static_cast<long long>(nodes);
    if (PyObject* const result = PyObject_CallFunction(called, "ssL", name, overload, count)) {
      answer = static_cast<int>(PyLong_AsLong(result));
      Py_DECREF(result);
    }
    if (PyErr_Occurred() != nullptr) {
      answer = kHidden;
      keep_error();
    }
    Py_DECREF(called);
  }
  PyGILState_Release(gil);
  return answer;
}

void call_before_operators(const py::object& begin, unsigned long main) {
  PyObject* const before = std::exchange(function, begin.is_none() ? nullptr : begin.ptr());
  Py_XINCREF(function);
  if (function != nullptr) main_thread = main;  // else a running call may still need it
  Py_XDECREF(before);
}

}  // namespace

void bind_operator_begin(py::module_& module) {
  module.def("call_before_operators", &call_before_operators, py::arg("begin"),
             py::arg("main_thread"),
             "Set the Python function to call before operators, or None, and the id of the main\n"
             "thread. If the function fails on the main thread, its error is raised there. On\n"
             "other threads, the error is printed.");
  module.def(
      "operator_begin", [] { return reinterpret_cast<std::uintptr_t>(&begin_operator); },
      "Return the address of the C function that adapters call before an operator.");
}

}  // namespace pgmo

// The owner of one block, for frameworks that free memory by destroying an object.
//
// Implemented in C, because a Python class would run `__init__` and `__del__` for each array.

#include "bindings/block.hpp"

#include "bindings/module.hpp"

namespace py = pybind11;

namespace pgmo {
namespace {

struct BlockObject {
  PyObject_HEAD Engine* engine;
  void* address;
  PyObject* memory;  // owned reference to the framework's memory; null for slots
};

// True once the interpreter exits. From then on, the callbacks of arenas may no longer exist.
bool ended = false;

void destroy(PyObject* self) {
  BlockObject* block = reinterpret_cast<BlockObject*>(self);
  // The release of an arena's last block calls Python code, perhaps while an exception propagates.
  const py::error_scope pending;
  // Release first, so that the engine forgets the block before the framework reuses its memory.
  if (!ended) (void)block->engine->release(block->address);
  Py_XDECREF(block->memory);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyTypeObject* make_type() {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
      {Py_tp_doc, const_cast<char*>("Owner of one block; its destruction releases the block.")},
      {0, nullptr}};
  static PyType_Spec spec = {"pgmo._core.Block", sizeof(BlockObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) throw py::error_already_set();
  return reinterpret_cast<PyTypeObject*>(type);
}

PyTypeObject* block_type = nullptr;

}  // namespace

py::object make_block(Engine& engine, void* address, const py::object& memory) {
  PyObject* made = block_type->tp_alloc(block_type, 0);
  if (made == nullptr) {
    const py::error_already_set error;
    (void)engine.release(address);
    throw error;
  }
  BlockObject* block = reinterpret_cast<BlockObject*>(made);
  block->engine = &engine;
  block->address = address;
  block->memory = memory.inc_ref().ptr();
  return py::reinterpret_steal<py::object>(made);
}

void bind_block(py::module_& module) {
  block_type = make_type();
  module.def(
      "end_blocks", [] { ended = true; },
      "From now on, destroy owners without releasing their blocks, because the interpreter exits.");
}

}  // namespace pgmo

// What the headers of libstdc++ 11 and later call and older libraries do not have.
//
// Linked into adapters and hidden there. An exception_ptr is not counted there: an exception that
// passes through is never freed. So an adapter must not hand a copy of one to PyTorch, which would
// count it down. None has to do with exception_ptr but through pybind11, which keeps its own.

#include <exception>
#include <new>

// Declared with default visibility, which a definition cannot change.
__asm__(
    ".hidden _ZSt28__throw_bad_array_new_lengthv\n"
    ".hidden _ZNSt15__exception_ptr13exception_ptr9_M_addrefEv\n"
    ".hidden _ZNSt15__exception_ptr13exception_ptr10_M_releaseEv\n");

namespace std {

void __throw_bad_array_new_length() {
  throw bad_array_new_length();
}

namespace __exception_ptr {
void exception_ptr::_M_addref() noexcept {}
void exception_ptr::_M_release() noexcept {}
}  // namespace __exception_ptr

}  // namespace std

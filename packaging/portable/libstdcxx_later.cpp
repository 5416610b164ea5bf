// Functions that headers of libstdc++ 11 and later call, and that older versions of libstdc++ lack.
//
// Adapters are linked with this file, with hidden symbols. Its exception_ptr counts no references,
// so an exception in it is never freed. An adapter must not pass a copy of an exception_ptr to
// PyTorch, which would decrease the count. Only pybind11 uses exception_ptr, and passes none.

#include <exception>
#include <new>

// The headers declare these functions with default visibility, which a definition cannot change.
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

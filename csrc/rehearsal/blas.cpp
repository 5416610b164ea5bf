// Stub of cuBLAS: handles and descriptors exist, and every product succeeds and computes nothing.
// The wheels of torch contain no complete header of cuBLAS. So the few functions that return a
// value are declared here.

#include <cstddef>

extern "C" {

static char handle;

// Each call returns another handle: torch keeps a handle, and its workspace, for each thread.
int cublasCreate_v2(void** made) {
  *made = new char;
  return 0;
}

int cublasLtMatmulDescCreate(void** made, int, int) {
  *made = &handle;
  return 0;
}

int cublasLtMatmulPreferenceCreate(void** made) {
  *made = &handle;
  return 0;
}

int cublasLtMatrixLayoutCreate(void** made, int, unsigned long long, unsigned long long,
                               long long) {
  *made = &handle;
  return 0;
}

int cublasGetMathMode(void*, int* mode) {
  *mode = 0;
  return 0;
}

int cublasGetPointerMode_v2(void*, int* mode) {
  *mode = 0;
  return 0;
}

size_t cublasLtGetVersion() {
  return 130100;
}

// Return one algorithm, which needs no workspace: torch has initialized the result with zeros.
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, void*,
                                   int* found) {
  *found = 1;
  return 0;
}
}

// cuBLAS stub: handles and descriptors exist, and every product succeeds. The torch wheels contain
// no complete cuBLAS header, so the few functions that return a value are declared here.

#include <cstddef>

extern "C" {

static char handle;

// Create a new handle each time: each thread has one, and torch keeps a workspace per handle.
int cublasCreate_v2(void** made) {
  *made = new char;
  return 0;
}

int cublasLtCreate(void** made) {
  *made = &handle;
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

// Return one algorithm, all zeros as initialized by torch, which needs no workspace.
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, void*,
                                   int* found) {
  *found = 1;
  return 0;
}
}

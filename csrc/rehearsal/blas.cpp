// cuBLAS: handles and descriptors exist, and every product succeeds. The wheels of torch bring no
// header of it that is complete, so the few functions that return something are declared here.

#include <cstddef>

extern "C" {

static char handle;

// A handle of its own each time, as threads have: torch keeps a workspace for each.
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

// One algorithm, all zeros, which torch has prepared: it wants no workspace.
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, void*,
                                   int* found) {
  *found = 1;
  return 0;
}
}

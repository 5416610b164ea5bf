// See cuda_runtime_api.h: PyTorch's headers include the driver's and use only its version.
#pragma once

#define CUDA_VERSION 13000

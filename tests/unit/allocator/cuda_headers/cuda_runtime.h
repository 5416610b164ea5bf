// See cuda_runtime_api.h: the part for device code is not needed.
#pragma once

#include "cuda_runtime_api.h"

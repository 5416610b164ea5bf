// The function table of pgmo_baseline.h.

#pragma once

#include "baseline/pgmo_baseline.h"

namespace pgmo::baseline {

const pgmo_baseline_api* baseline_api() noexcept;

}  // namespace pgmo::baseline

// The function table for adapters, and the object behind a pgmo_space handle.

#pragma once

#include "pages/pgmo_pages.h"
#include "pages/space.hpp"

namespace pgmo::pages {

const pgmo_pages_api* pages_api() noexcept;

Space* space_of(pgmo_space* handle) noexcept;

}  // namespace pgmo::pages

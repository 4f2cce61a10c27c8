// Text formatting for the whole project: {fmt}, header-only so that no shared library is needed at run time.
#pragma once

#include <fmt/format.h>

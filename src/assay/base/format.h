// Text formatting for the whole project: {fmt}, whose implementation base/format.cpp compiles into the
// program.
#pragma once

#include <fmt/format.h>

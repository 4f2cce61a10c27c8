// What the targets of this folder share. A target gives a parser the bytes that libFuzzer makes
// (docs/fuzzing.md) and uses what was read as the program would. Error is the parser's answer to bad input;
// any other exception, a crash, a report of a sanitizer, a leak or a run beyond the limits is a finding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "assay/base/error.h"
#include "assay/base/file.h"

namespace assay::fuzz {

// Whether `run` ended without an Error.
template <typename Run>
bool is_accepted(const Run& run) {
  try {
    run();
    return true;
  } catch (const Error&) {
    return false;
  }
}

// A promise of a header that does not hold.
[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "FINDING: %s\n", what.c_str());
  std::abort();
}

inline void expect(bool holds, const char* what) {
  if (!holds) fail(what);
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A file of these bytes, which must outlive it.
inline ReadFile file_of(std::string_view bytes, const char* name) {
  return {name, std::as_bytes(std::span(bytes.data(), bytes.size()))};
}

}  // namespace assay::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

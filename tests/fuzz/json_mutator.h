// Mutates inputs whose parts are JSON documents: keys and values are exchanged, deleted, repeated, moved,
// taken from another input, and numbers become extreme. Bytes mutated one by one rarely leave a document
// valid, and never reach what reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace assay::fuzz {

struct Part {
  std::string text;
  bool is_json = true;
};

// How an input is divided into parts, and put together again.
struct Form {
  std::vector<Part> (*split)(std::string_view input) = nullptr;
  std::string (*join)(const std::vector<Part>& parts) = nullptr;
};

// The whole input is a document.
Form one_document();
// A document a line.
Form lines();
// Parts that end with a NUL byte: the first `documents` are JSON, and one more is any bytes where `has_rest`.
template <int documents, bool has_rest>
Form sections();

// What libFuzzer calls, of this form; a quarter of the mutations are of bytes.
std::size_t mutate(const Form& form, std::uint8_t* data, std::size_t size, std::size_t max_size,
                   unsigned seed);
std::size_t cross(const Form& form, std::string_view a, std::string_view b, std::uint8_t* out,
                  std::size_t max_size, unsigned seed);
// Reads the words of the dictionary that libFuzzer was given, as keys and texts.
void read_dictionary(int argc, char** argv);

std::vector<Part> split_sections(std::string_view input, std::size_t documents, bool has_rest);
std::string join_sections(const std::vector<Part>& parts);

template <int documents, bool has_rest>
Form sections() {
  return {[](std::string_view input) { return split_sections(input, documents, has_rest); }, join_sections};
}

}  // namespace assay::fuzz

// The hooks of a target whose inputs have this form.
#define ASSAY_FUZZ_FORM(form)                                                                                \
  extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);                                              \
  extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {                                             \
    assay::fuzz::read_dictionary(*argc, *argv);                                                              \
    return 0;                                                                                                \
  }                                                                                                          \
  extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, \
                                                 unsigned seed);                                             \
  extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, \
                                                 unsigned seed) {                                            \
    return assay::fuzz::mutate(form, data, size, max_size, seed);                                            \
  }                                                                                                          \
  extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* a, std::size_t a_size,                \
                                                   const std::uint8_t* b, std::size_t b_size,                \
                                                   std::uint8_t* out, std::size_t max_size, unsigned seed);  \
  extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* a, std::size_t a_size,                \
                                                   const std::uint8_t* b, std::size_t b_size,                \
                                                   std::uint8_t* out, std::size_t max_size, unsigned seed) { \
    return assay::fuzz::cross(form, assay::fuzz::text_of(a, a_size), assay::fuzz::text_of(b, b_size), out,   \
                              max_size, seed);                                                               \
  }

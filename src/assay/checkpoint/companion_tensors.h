// Tensors that belong to a quantized weight, and are named after it or after its module. For the readers of
// quantized weights alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/error.h"
#include "assay/checkpoint/quantized_weights.h"

namespace assay {

// The module of a weight: its name without ".weight".
inline std::string module_of(const std::string& weight) {
  return weight.substr(0, weight.rfind('.'));
}

inline std::string beside(const std::string& name, std::string_view suffix) {
  return name + std::string(suffix);
}

// A tensor that belongs to the weight.
inline CheckpointTensor need(const Checkpoint& checkpoint, const std::string& weight,
                             const std::string& name) {
  const CheckpointTensor at = checkpoint.find(name);
  if (at) return at;
  const CheckpointTensor owner = checkpoint.find(weight);
  throw Error("{}: tensor '{}' is missing: the quantized '{}' needs it",
              (owner ? owner.file() : checkpoint.files().front()).string(), name, weight);
}

inline void expect_floats(const CheckpointTensor& at, std::int64_t count) {
  if (!info(at->dtype).is_weight)
    throw Error("{}: expected F32, F16 or BF16, found {}", at.where(), info(at->dtype).safetensors);
  if (at->elements() != count)
    throw Error("{}: expected {} numbers, found shape {}", at.where(), count, at->shape_text());
}

inline std::vector<float> floats_of(const CheckpointTensor& at) {
  std::vector<float> values(static_cast<std::size_t>(at->elements()));
  at.read_floats(0, at->elements(), values.data());
  if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); }))
    throw Error("{}: expected finite scales, found NaN or infinity", at.where());
  return values;
}

inline std::vector<float> magnitudes_of(const CheckpointTensor& at) {
  std::vector<float> values = floats_of(at);
  if (std::any_of(values.begin(), values.end(), [](float x) { return x < 0; }))
    throw Error("{}: expected magnitudes, 0 or more, found a negative number", at.where());
  return values;
}

// Codes [rows, columns] and `absmax_name`, the largest magnitude of each row.
inline void check_int8_codes(const Checkpoint& checkpoint, const StoredCodes& weight,
                             const std::string& absmax_name) {
  const CheckpointTensor codes = checkpoint.find(weight.name);
  StoredTensor expected;
  expected.shape = {weight.rows, weight.columns};
  if (codes->dtype != DType::i8 || codes->shape != expected.shape)
    throw Error("{}: expected I8 {} (by config.json), found {} {}", codes.where(), expected.shape_text(),
                info(codes->dtype).safetensors, codes->shape_text());
  const CheckpointTensor absmax = need(checkpoint, weight.name, absmax_name);
  expect_floats(absmax, weight.rows);
  magnitudes_of(absmax);
}

inline void read_int8_codes(const Checkpoint& checkpoint, const StoredCodes& weight, std::int64_t first_row,
                            std::int64_t row_count, std::uint8_t* out) {
  const CheckpointTensor at = checkpoint.find(weight.name);
  const auto count = static_cast<std::size_t>(row_count * weight.columns);
  at.read_bytes(static_cast<std::uint64_t>(first_row * weight.columns),
                std::as_writable_bytes(std::span(out, count)));
  constexpr std::uint8_t kBeyond = 0x80;  // -128: quantizing gives -127 to 127
  if (std::find(out, out + count, kBeyond) != out + count)
    throw Error("{}: the code -128 is beyond the table: expected -127 to 127", at.where());
}

}  // namespace assay

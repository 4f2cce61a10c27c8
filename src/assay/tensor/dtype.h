// The one table of element types.
#pragma once

#include <cstdint>
#include <string_view>

namespace assay {

enum class DType : std::uint8_t { f32, f16, bf16, f64, i64, i32, i16, i8, u8, boolean };

struct DTypeInfo {
  std::string_view name;         // as users and config.json write it: "float32"
  std::string_view safetensors;  // as a safetensors header writes it: "F32"
  int bytes;
  bool is_weight;  // a type that model weights may be stored in
};

const DTypeInfo& info(DType dtype);
inline std::string_view name_of(DType dtype) {
  return info(dtype).name;
}

// Finds a type by its safetensors name; false when there is none.
bool dtype_from_safetensors(std::string_view text, DType& out);

}  // namespace assay

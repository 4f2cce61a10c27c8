#include "assay/tensor/dtype.h"

#include <array>

namespace assay {

namespace {
// In the order of the enum.
constexpr std::array<DTypeInfo, 10> kTable = {{
    {"float32", "F32", 4, true},
    {"float16", "F16", 2, true},
    {"bfloat16", "BF16", 2, true},
    {"float64", "F64", 8, false},
    {"int64", "I64", 8, false},
    {"int32", "I32", 4, false},
    {"int16", "I16", 2, false},
    {"int8", "I8", 1, false},
    {"uint8", "U8", 1, false},
    {"bool", "BOOL", 1, false},
}};
}  // namespace

const DTypeInfo& info(DType dtype) {
  return kTable[static_cast<std::size_t>(dtype)];
}

bool dtype_from_safetensors(std::string_view text, DType& out) {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (kTable[i].safetensors != text) continue;
    out = static_cast<DType>(i);
    return true;
  }
  return false;
}

}  // namespace assay

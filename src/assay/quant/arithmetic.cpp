#include "assay/quant/arithmetic.h"

namespace assay {

std::string_view name_of(Multiply multiply) {
  switch (multiply) {
    case Multiply::float32:
      return "float32";
    case Multiply::tf32:
      return "tf32";
    case Multiply::bfloat16_x2:
      return "2 x bfloat16";
    case Multiply::bfloat16_x3:
      return "3 x bfloat16";
    case Multiply::bfloat16:
      return "bfloat16";
    case Multiply::float16:
      return "float16";
    case Multiply::int8:
      return "int8";
  }
  return "";
}

}  // namespace assay

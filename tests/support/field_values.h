// A value for every field of the configuration.
#pragma once

#include <map>
#include <string>

#include "assay/base/format.h"
#include "assay/config/fields.h"

namespace assay::test {

// A value that each field may have, as parse() reads it. A field of the table that is missing here fails.
inline std::string value_of(const Field& field) {
  static const std::map<std::string_view, std::string> values{
      {"precision", "nf4"},
      {"recipe", R"({"name":"a \"mix\"","default":"nf4","modules":[)"
                 R"({"match":"*.mlp.*","format":"int8"}]})"},
      {"dtype", "bfloat16"},
      {"quantize_head", "fp4"},
      {"llm_int8_threshold", "4.5"},
      {"input_scale", "per-tensor"},
      {"activations", "int8"},
      {"calibrator", "entropy"},
      {"smooth_quant", "0.25"},
      {"calibration", "a \"text\", \\ and more.txt"},
      {"include", "*.mlp.*"},
      {"exclude", "h.0."},
      {"kv_cache", "int8"},
      {"allow_non_finite", "true"},
      {"float32_matmul", "bf16x6"},
      {"lm_head_search", "int8"},
      {"newlines", "keep"},
      {"isa", "scalar"},
      {"device", "cuda:1"},
      {"cuda_gemm", "cublaslt"},
      {"threads", "3"},
      {"tune", "off"},
      {"cpu_mask", ""},
      {"replica", "2"},
      {"dequantized", "true"},
      {"model", "a \"b\" c"}};
  if (field.key == "cpu_mask") {  // the first processor that this process may run on
    std::string mask = fmt::format("{:x}", 1 << allowed_processors().front() % 4);
    return "0x" + mask.append(static_cast<std::size_t>(allowed_processors().front()) / 4, '0');
  }
  return values.at(field.key);
}

}  // namespace assay::test

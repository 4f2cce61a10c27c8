// Weights as bitsandbytes stores them: int8 codes of LLM.int8(), and 4-bit codes in blocks of 64
// (bitsandbytes.h).
#pragma once

#include "assay/checkpoint/bitsandbytes.h"
#include "assay/checkpoint/quantized_weights.h"

namespace assay {

class BitsandbytesWeights : public QuantizedWeights {
 public:
  explicit BitsandbytesWeights(const Checkpoint& checkpoint, const bitsandbytes::Config& config = {})
      : checkpoint_(checkpoint), threshold_(static_cast<float>(config.threshold)) {}

  StoredMethod method() const override {
    return {.declared_by = "quantization_config", .outlier_threshold = threshold_};
  }
  std::optional<WeightFormat> format_of(const std::string& weight) const override;
  std::vector<std::string> names_beside(const StoredCodes& tensor) const override;
  void check(const StoredCodes& tensor) const override;
  void read_codes(const StoredCodes& tensor, std::int64_t first_row, std::int64_t row_count,
                  std::uint8_t* out) const override;
  std::vector<float> read_scales(const StoredCodes& tensor) const override;

 private:
  const Checkpoint& checkpoint_;
  float threshold_;
};

}  // namespace assay

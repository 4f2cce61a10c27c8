// Weights as `assay quantize` stores int8-dynamic and int8-static (int8_checkpoint.h).
#pragma once

#include "assay/checkpoint/int8_checkpoint.h"
#include "assay/checkpoint/quantized_weights.h"

namespace assay {

class Int8Weights : public QuantizedWeights {
 public:
  Int8Weights(const Checkpoint& checkpoint, const int8_checkpoint::Config& config);

  StoredMethod method() const override;
  std::optional<WeightFormat> format_of(const std::string& weight) const override;
  std::vector<std::string> names_beside(const StoredCodes& tensor) const override;
  void check(const StoredCodes& tensor) const override;
  void read_codes(const StoredCodes& tensor, std::int64_t first_row, std::int64_t row_count,
                  std::uint8_t* out) const override;
  std::vector<float> read_scales(const StoredCodes& tensor) const override;
  InputCalibration calibration_of(const StoredCodes& tensor) const override;

 private:
  const Checkpoint& checkpoint_;
  int8_checkpoint::Config config_;
  bool has_input_codes_, has_smoothing_;
};

}  // namespace assay

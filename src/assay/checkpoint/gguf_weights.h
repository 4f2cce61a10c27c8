// Weights that a GGUF file keeps in blocks of codes and scales.
#pragma once

#include "assay/checkpoint/gguf_checkpoint.h"
#include "assay/checkpoint/quantized_weights.h"

namespace assay {

class GgufWeights : public QuantizedWeights {
 public:
  explicit GgufWeights(const GgufCheckpoint& checkpoint) : checkpoint_(checkpoint) {}

  // Any precision can be asked for instead: blocks can be read as numbers too.
  StoredMethod method() const override { return {.can_be_read_as_numbers = true}; }
  std::optional<WeightFormat> format_of(const std::string& weight) const override;
  std::vector<std::string> names_beside(const StoredCodes&) const override { return {}; }
  void check(const StoredCodes& tensor) const override;
  void read_codes(const StoredCodes& tensor, std::int64_t first_row, std::int64_t row_count,
                  std::uint8_t* out) const override;
  std::vector<float> read_scales(const StoredCodes& tensor) const override;
  std::vector<float> read_offsets(const StoredCodes& tensor) const override;
  SuperBlocks read_super_blocks(const StoredCodes& tensor) const override;

 private:
  struct Groups {
    std::vector<float> scales, offsets;
  };
  Groups groups_of(const StoredCodes& tensor) const;

  const GgufCheckpoint& checkpoint_;
};

}  // namespace assay

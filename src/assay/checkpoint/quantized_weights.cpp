#include "assay/checkpoint/quantized_weights.h"

#include "assay/checkpoint/bitsandbytes.h"
#include "assay/checkpoint/bitsandbytes_weights.h"
#include "assay/checkpoint/int8_checkpoint.h"
#include "assay/checkpoint/int8_weights.h"

namespace assay {

std::unique_ptr<const QuantizedWeights> quantized_weights(const ModelFolder& folder) {
  if (const auto own = int8_checkpoint::config_from(folder.config()))
    return std::make_unique<Int8Weights>(folder.checkpoint(), *own);
  if (bitsandbytes::config_from(folder.config()))
    return std::make_unique<BitsandbytesWeights>(folder.checkpoint());
  return nullptr;
}

}  // namespace assay

// Checkpoints that are quantized already (bitsandbytes): what they hold, their codes and their scales.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "assay/files/model_folder.h"
#include "assay/model/spec.h"
#include "assay/quant/precision.h"

namespace assay {

// The precision that the folder's weights are stored in, "nf4-dq (as stored)"; none where config.json has no
// quantization_config. The tensors decide, not the configuration. Throws Error for another method than
// bitsandbytes, for modules of different formats, and where nothing is stored quantized.
std::optional<Precision> stored_precision(const ModelFolder& folder, const ModelSpec& spec);

// Of a weight that is_stored_quantized: throws Error naming file and tensor where one of its tensors is
// missing, of another size or type, or says something that does not go with the weight.
void check_stored(const WeightSpec& weight, const ModelFolder& folder);

// As WeightSource gives them, of a weight that check_stored() let pass. Scales of scales are undone as
// bitsandbytes does. Throw Error for a code beyond the table and for scales that are not finite.
void read_stored_codes(const ModelFolder& folder, const WeightSpec& weight, std::int64_t first_row,
                       std::int64_t row_count, std::uint8_t* out);
std::vector<float> read_stored_scales(const ModelFolder& folder, const WeightSpec& weight);

}  // namespace assay

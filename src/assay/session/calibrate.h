// Calibration: a text goes through the model in float32, and what its products see decides how their inputs
// are quantized.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/base/text_file.h"
#include "assay/checkpoint/source.h"
#include "assay/quant/calibration.h"
#include "assay/quant/precision.h"
#include "assay/text/tokenizer.h"

namespace assay {

// Fewer tokens are an error; of more, the first are used.
inline constexpr std::int64_t kMinCalibrationTokens = 32, kMaxCalibrationTokens = 16384;

struct CalibrationText {
  std::vector<TokenId> ids;
  std::string sha256;  // the hash of the whole text, its line ends as they were read
  std::string change;  // what became of its line ends, as TextFile has it
};
// Reads and tokenizes a text. Throws Error where it is missing, empty, no UTF-8 or too short.
CalibrationText read_calibration(const std::filesystem::path& file, const Tokenizer& tokenizer,
                                 Newlines newlines = Newlines::universal);

// Runs the ids through the source's model in float32, in windows of its context, and gives what `precision`
// asks for: the ranges of the inputs of each matrix of the blocks by its calibrator, and the factors of
// SmoothQuant, which are found in a pass of their own. One layer's weights are in memory at a time, in
// float32, with the hidden states of all tokens twice: the size of the model does not matter. Throws Error
// for fewer tokens than kMinCalibrationTokens, for what is not finite, and where should_stop said so,
// which is asked before each window in each layer.
Calibration calibrate(const std::shared_ptr<const ModelSource>& source,
                      const std::shared_ptr<Backend>& backend, const Precision& precision,
                      std::span<const TokenId> ids, const std::function<bool()>& should_stop = {});

}  // namespace assay

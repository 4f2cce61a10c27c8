// Weights that a checkpoint holds quantized: their formats, codes and scales, whichever method wrote them.
// The model's source gives the reader of them (source.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "assay/checkpoint/checkpoint.h"
#include "assay/quant/calibration.h"
#include "assay/quant/code_values.h"
#include "assay/quant/precision.h"

namespace assay {

// As the model sees it: a matrix [rows, columns] of codes.
struct StoredCodes {
  std::string name;
  std::int64_t rows = 0, columns = 0;
  WeightFormat format = formats::kFloat32;

  std::int64_t elements() const { return rows * columns; }
};

// How a model of such weights is computed, as far as their formats do not say it.
struct StoredMethod {
  // What says that weights are quantized, for messages: a model without any is an error then. Empty: the
  // tensors alone do.
  std::string declared_by = {};
  // That the whole checkpoint is of; unset: the formats of its weights decide.
  std::optional<Preset> preset = {};
  float outlier_threshold = 6;                     // LLM.int8() alone reads it
  Calibrator calibrator = Calibrator::percentile;  // int8-static alone reads it
  double smoothing = -1;                           // SmoothQuant's alpha, of int8; negative: none
  std::string calibration_sha256 = {};             // the calibration text's; empty: there was none
  // Checkpoint::read_floats gives what codes stand for: the model also runs in a precision that is asked for.
  bool can_be_read_as_numbers = false;
};

// Functions that take a StoredCodes, but check(), take one that check() let pass.
class QuantizedWeights {
 public:
  virtual ~QuantizedWeights() = default;

  virtual StoredMethod method() const { return {}; }
  // How the checkpoint holds a weight; none where its elements are plain numbers, or where it is missing.
  virtual std::optional<WeightFormat> format_of(const std::string& weight) const = 0;
  // Names of the tensors beside the weight's own: scales, state, what was calibrated.
  virtual std::vector<std::string> names_beside(const StoredCodes& tensor) const = 0;
  // Throws Error naming file and tensor where one of them is missing, of another size or type, or says
  // something that does not go with the weight.
  virtual void check(const StoredCodes& tensor) const = 0;
  // Codes of rows [first_row, first_row + row_count), one in a byte. Throws Error for one beyond the table.
  virtual void read_codes(const StoredCodes& tensor, std::int64_t first_row, std::int64_t row_count,
                          std::uint8_t* out) const = 0;
  // By row or block, as the format has them; scales of scales are undone as bitsandbytes does. Throws Error
  // for scales that are not finite.
  virtual std::vector<float> read_scales(const StoredCodes& tensor) const = 0;
  // What formats with zero points or minima have, and those with permuted inputs, as a WeightSource gives it.
  virtual std::vector<float> read_offsets(const StoredCodes&) const { return {}; }
  virtual std::vector<std::int32_t> read_input_groups(const StoredCodes&) const { return {}; }
  // Formats with super-blocks have these, and neither scales nor offsets.
  virtual SuperBlocks read_super_blocks(const StoredCodes&) const { return {}; }
  // What was calibrated of the weight's inputs. Throws Error as check() does.
  virtual InputCalibration calibration_of(const StoredCodes&) const { return {}; }
};

}  // namespace assay

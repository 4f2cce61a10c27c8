// What a text tells about the inputs of quantized products: ranges for codes that are fixed beforehand, by
// the calibrators of ONNX Runtime (onnxruntime/python/tools/quantization/calibrate.py of 1.31, to the bit),
// and the factors of SmoothQuant (Xiao et al. 2023).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

//   minmax      the smallest and the largest value seen
//   percentile  a histogram's edges between which 99.999 % of the values lie
//   entropy     the edges, of an even number of bins about zero, whose values differ least in
//   Kullback-Leibler
//               divergence when 128 levels stand for them
enum class Calibrator { minmax, percentile, entropy };
// Any case; throws FieldError with the list.
Calibrator calibrator_from_name(std::string_view name);
std::string_view name_of(Calibrator calibrator);

struct Range {
  float low = 0, high = 0;
};

struct ObserverOptions {
  Calibrator calibrator = Calibrator::percentile;
  bool is_symmetric = false;  // percentile: of magnitudes; minmax: both sides as far as the further one
  std::int64_t bins = 0;      // at first; 0: ONNX Runtime's, 2048 for percentile and 128 for entropy
  double percentile = 99.999;
};

// Sees a tensor batch by batch and keeps a histogram of it, which grows with the values as ONNX Runtime's
// does. Beyond 16 times the bins it began with, bins are joined in pairs: memory stays bounded, ranges are
// then exact to the wider bins.
class RangeObserver {
 public:
  explicit RangeObserver(const ObserverOptions& options);
  // One batch, finite or NaN; NaN is passed over.
  void observe(std::span<const float> values);
  // The range of what was seen so far; [0, 0] of nothing.
  Range range() const;
  // The share of the values seen that lie outside range().
  double clipped_share() const;
  std::int64_t bins() const { return static_cast<std::int64_t>(counts_.size()); }

 private:
  void begin(Range seen, float largest);
  void widen(float largest);
  void widen_magnitudes(float largest);
  void join_bins();
  void count(std::span<const float> values);
  Range percentile_range() const;

  ObserverOptions options_;
  std::int64_t most_bins_;
  bool has_magnitudes_;               // the histogram is one of magnitudes
  std::vector<std::int64_t> counts_;  // per bin
  std::vector<float> edges_;          // counts_.size() + 1, ascending
  float threshold_ = 0;               // the outermost edge, where the histogram is one about zero
  Range seen_;
  std::int64_t values_ = 0;
};

// Codes of a range, as compute_scale_zp of ONNX Runtime has it: a code stands for scale * (code -
// zero_point). The range is widened to hold zero; an empty one gets scale 1.
struct UniformCode {
  float scale = 1;
  int zero_point = 0;
};
UniformCode uint8_code(Range range);           // codes 0 to 255
UniformCode dynamic_uint8_code(Range range);   // the same in float32, as DynamicQuantizeLinear has it
UniformCode symmetric_int8_code(Range range);  // codes -127 to 127, zero_point 0

// s[j] = input_max[j]^alpha / weight_max[j]^(1 - alpha): inputs are divided and weights multiplied by it,
// which moves the difficulty of inputs whose columns differ much into the weights. At least 1e-5; 1 where a
// maximum is zero.
std::vector<float> smoothing_factors(std::span<const float> input_max, std::span<const float> weight_max,
                                     double alpha);

// What is known of one product's inputs.
struct InputCalibration {
  Range range;  // that smoothed inputs have; [0, 0] where no range was asked for, or only its code is kept
  UniformCode code;              // for the range, 0 to 255
  double clipped_share = 0;      // how many of the calibration's inputs are beyond it
  std::vector<float> smoothing;  // s[j] of each input; empty: none
};
using Calibration = std::map<std::string, InputCalibration>;  // by the weight tensor's name

}  // namespace assay

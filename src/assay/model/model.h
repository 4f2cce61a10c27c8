// A model ready to run: its architecture, and its weights on a device.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/checkpoint/source.h"
#include "assay/model/spec.h"
#include "assay/quant/calibration.h"

namespace assay {

class Model {
 public:
  // Checks every tensor's presence and shape, then reads, converts and packs the weights. Throws Error naming
  // the file and the tensor, and where the precision needs a calibration and none is given. A checkpoint that
  // keeps its calibration takes that one. should_stop is asked before each piece of a tensor is read, on any
  // thread, one at a time; where it says so, throws Stopped.
  static Model load(std::shared_ptr<const ModelSource> source, std::shared_ptr<Backend> backend,
                    const Precision& precision, const Calibration& calibration = {},
                    const std::function<bool()>& should_stop = {});

  const ModelSpec& spec() const { return spec_; }
  const Precision& precision() const { return precision_; }
  const ModelSource& source() const { return *source_; }
  const std::shared_ptr<const ModelSource>& shared_source() const { return source_; }
  Backend& backend() const { return *backend_; }
  const std::shared_ptr<Backend>& shared_backend() const { return backend_; }  // for another model on it
  Program& program() const { return *program_; }
  Seconds load_time() const { return load_time_; }
  // What of the source is left unused, or cannot be as it says.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // Bytes of parameters as Transformers' get_memory_footprint() counts them: tied weights once, no scales.
  Bytes footprint() const { return program_->plan().footprint(precision_.bytes_per_parameter); }

 private:
  ModelSpec spec_;
  Precision precision_;
  std::shared_ptr<const ModelSource> source_;
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<Program> program_;
  Seconds load_time_;
  std::vector<std::string> warnings_;
};

// Throws Error when a tensor of the plan is missing, of the wrong shape or of a type that holds no weights.
void check_weights(const Plan& plan, const ModelSource& source);

// What a tensor of the source is to the model that its configuration describes.
enum class TensorUse {
  weight,
  beside_weight,   // scales and other state of a weight that is stored quantized
  buffer,          // a causal mask or another buffer that the family knows and does not need
  tied_head,       // the LM head, which is said to be the embedding
  other_modality,  // for images or sound, of a model whose text part alone is run
  none
};
// In the order of source.all(); `precision` is what the source stores (stored_precision), or any other.
std::vector<TensorUse> tensor_uses(const ModelSpec& spec, const Precision& precision,
                                   const ModelSource& source);

// What becomes of weights whose types cannot be read: only what loads none shows such a model.
enum class UnreadableWeights { are_refused, are_warned_of };

// check_weights(), and that every tensor of the source is used: throws Error naming the first that is not (a
// configuration of fewer layers, the weights of another model), and an LM head that differs from the
// embedding it is said to be. Returns warnings: buffers that are not needed.
std::vector<std::string> check_tensors(const ModelSpec& spec, const Precision& precision,
                                       const ModelSource& source,
                                       UnreadableWeights unreadable = UnreadableWeights::are_refused);
// A clause on the weights whose types cannot be read, with what to do; empty where there are none.
std::string unreadable_weights(const Plan& plan, const ModelSource& source);

// A program for `spec` over the source's weights: what load() runs. Tests use it with a changed spec.
std::unique_ptr<Program> prepare_program(const ModelSpec& spec, const ModelSource& source, Backend& backend,
                                         const Precision& precision, const Calibration& calibration = {});

// The weights of a source, which outlives it and whose tensors are checked.
std::unique_ptr<WeightSource> weight_source(const ModelSource& source);

// max |w| of each of a matrix's columns (inputs), of the weights as the source has them.
std::vector<float> column_magnitudes(const WeightSpec& weight, const ModelSource& source);

}  // namespace assay

// What a row ran with, as values: what takeaways and remedies read in place of labels.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace assay {

struct Setting {
  std::string precision;    // "nf4", or a recipe; empty: as the checkpoint stores its weights
  std::string lm_head;      // the format of a quantized LM head; empty: it is not quantized
  std::string activations;  // "int8", "dtype"; empty: not set
  std::string kv_cache;     // "int8"; empty: the type that the precision computes in
  std::string device, kernels;
  int threads = 0;              // 0: not known
  bool cache = true;            // generated with a KV cache
  std::int64_t batch_size = 0;  // prompts computed together; 0: a single prompt
  std::string padding;          // how a batch is padded: "left", "right", "none"
  std::string model = {};       // its name where a run has several; empty: it has one
  bool operator==(const Setting&) const = default;
};

// The setting of a row of an earlier file, which has parameters alone: keys and their texts.
Setting setting_of_parameters(std::span<const std::pair<std::string, std::string>> parameters);

}  // namespace assay

// Loading: a dtype with an honest label, and a model with its tokenizer from the same folder.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/base/error.h"
#include "assay/config/run_config.h"
#include "assay/model/model.h"
#include "assay/quant/precision.h"
#include "assay/results/results.h"
#include "assay/text/tokenizer.h"

namespace assay {

struct ResolvedDtype {
  Precision precision;  // what really runs
  std::string label;    // "float32", "float32 (forced on CPU)": what to print
  std::vector<Warning> warnings;
};
// A preset of quant/precision.h, any case, or its short name; anything else is a FieldError that lists them.
// float16 on a CPU becomes float32 and says so in the label; bfloat16 is bfloat16 (a loaded model carries a
// warning where the products are not). "auto" is float32.
ResolvedDtype resolve_dtype(std::string_view name, const Device& device);

struct LoadedModel {
  std::shared_ptr<const Tokenizer> tokenizer;  // null only where the folder has none and none was required
  std::shared_ptr<Model> model;
  std::string id;    // the candidate that was used, as it was given
  RunConfig config;  // as it was asked for; a precision that was not set is the one that runs, unless the
                     // checkpoint is quantized
  std::string dtype_label;
  std::vector<Warning> warnings;
  TokenId pad_token = 0;  // end-of-text where the folder names no other
  std::string
      calibration_sha256;    // of the text it was calibrated on, which is none to score; empty: none was
  double calibration_s = 0;  // of running the calibration text
  // "Loaded: demo | device=cpu | dtype=float32"
  std::string load_line() const;
};

// Which weights are quantized, which are not and why. Nothing where the plan has no quantized weight.
CoverageFacts coverage_of(const Plan& plan);

// What is not configuration.
struct LoadOptions {
  // To load on instead of a new one; the configuration's device, isa, threads and cpu_mask are not read then.
  std::shared_ptr<Backend> shared_backend = nullptr;
  bool needs_tokenizer = true;  // false: a folder without one serves for token ids
  bool pins_caller = false;     // a program that measures pins its main thread; a library leaves it alone
};

// The backend's part of a configuration.
BackendOptions backend_options(const RunConfig& config, bool pins_caller = false);

// What a configuration runs as on its device: a CPU computes float16, as precision or dtype, in float32.
RunConfig resolved_for_device(RunConfig config);

// What a folder runs in: resolve_dtype() with what the configuration changes of it, or what its checkpoint
// holds where that is quantized already. Throws FieldError for what does not go together, Error for a
// checkpoint that is quantized otherwise.
ResolvedDtype precision_of(const ModelFolder& folder, const ModelSpec& spec, const std::string& candidate,
                           const RunConfig& config);

// What `load` makes of the first candidate that it does not fail for. When all fail, one Error gives each
// one's reason.
template <typename Load>
auto first_candidate(const std::vector<std::string>& candidates, const Load& load)
    -> decltype(load(candidates.front())) {
  if (candidates.empty())
    throw UsageError("no model was named: expected a folder, a Hugging Face cache entry or 'demo'");
  std::string reasons;
  for (const std::string& candidate : candidates) {
    try {
      return load(candidate);
    } catch (const UsageError&) {
      throw;  // the next candidate does not make the flags better
    } catch (const Error& error) {
      if (candidates.size() == 1) throw;
      reasons += (reasons.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  throw Error("none of the {} candidates could be loaded: {}", candidates.size(), reasons);
}

// Tries the candidates in order: folders, Hugging Face cache entries, or `demo`. Tokenizer and model come
// from the same folder. When all fail, one Error gives each candidate's reason. A precision that is not set
// is float32, or what a checkpoint that is quantized already holds; of such a checkpoint every other
// precision is an error.
LoadedModel load_model_and_tokenizer(const std::vector<std::string>& candidates, const RunConfig& config,
                                     const LoadOptions& options = {});
// By names alone: `dtype` as run_config_from_text() reads it, "auto" leaves the precision unset.
LoadedModel load_model_and_tokenizer(const std::vector<std::string>& candidates, std::string_view dtype,
                                     const Device& device, const LoadOptions& options = {});

// Bytes of parameters and buffers, as Transformers' get_memory_footprint() counts them.
Bytes get_model_memory_footprint(const Model& model);

// A file that ships with the program ("texts/evaluate.txt"), beside the demo model. Throws Error when it is
// absent.
std::filesystem::path shipped_file(const std::string& name);

}  // namespace assay

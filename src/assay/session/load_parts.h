// What loading is made of, for the parts of the library that plan, predict and write models.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/base/error.h"
#include "assay/checkpoint/source.h"
#include "assay/model/spec.h"
#include "assay/session/load.h"

namespace assay {

// Which weights are quantized, which are not and why. Nothing where the plan has no quantized weight.
CoverageFacts coverage_of(const Plan& plan);

// Of a model whose LM head is searched in int8: the share of its outputs that were computed exactly so far.
std::optional<double> head_computed_share(const Model& model);

// The backend's part of a configuration.
BackendOptions backend_options(const RunConfig& config, bool pins_caller = false);

// What a configuration runs as on its device: a CPU computes float16, as precision or dtype, in float32.
RunConfig resolved_for_device(RunConfig config);
// What everything is compared with on a device: float32 on a CPU, float16 on a GPU.
Preset baseline_preset(const Device& device);
// What it runs on. An instruction set or a CPU mask asks for the CPU where the device may be any.
Device device_of(const RunConfig& config);

// What a model runs in: resolve_dtype() with what the configuration changes of it, or what its checkpoint
// holds where that is quantized already. Throws FieldError for what does not go together, Error for a
// checkpoint that is quantized otherwise.
ResolvedDtype precision_of(const ModelSource& source, const ModelSpec& spec, const std::string& candidate,
                           const RunConfig& config);

// Loads a source that is open already, as load_model_and_tokenizer() does one that it opens. Its path is the
// id.
LoadedModel load_source(const std::shared_ptr<const ModelSource>& source, const RunConfig& config,
                        const LoadOptions& options = {});

// A source's tokenizer; null where it has none, which is an Error where it is needed.
std::shared_ptr<const Tokenizer> tokenizer_of(const ModelSource& source, bool is_needed);

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
    } catch (const Stopped&) {
      throw;
    } catch (const Error& error) {
      if (candidates.size() == 1) throw;
      reasons += (reasons.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  throw Error("none of the {} candidates could be loaded: {}", candidates.size(), reasons);
}

}  // namespace assay

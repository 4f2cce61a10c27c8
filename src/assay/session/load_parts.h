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

// With an LM head that is searched in int8, the share of its outputs that were computed exactly so far.
std::optional<double> head_computed_share(const Model& model);

// Loads a source that is open already, as load_model_and_tokenizer() does one that it opens. Its path is the
// id.
LoadedModel load_source(const std::shared_ptr<const ModelSource>& source, const RunConfig& config,
                        const LoadOptions& options = {});

// A source's tokenizer; null where it has none, or none that can be read, which is an Error where it is
// needed. `told` receives warnings of what it does otherwise than its files say, and why it cannot be read.
std::shared_ptr<const Tokenizer> tokenizer_of(const ModelSource& source, bool is_needed,
                                              LoadedModel* told = nullptr);

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

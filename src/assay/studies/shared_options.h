// What the studies of one run share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "assay/session/time_generate.h"

namespace assay {

struct Case;  // harness/case.h

struct SharedOptions {
  std::vector<std::string> precisions = {};  // empty: default_precisions(); the first is the baseline
  std::vector<Prompt> prompts{"The capital of France is", "Once upon a time, in a land far, far away,",
                              "To be or not to be, that is the"};
  std::vector<Prompt> batch_prompts = {};          // what the batches are made of; empty: those that ship
  std::optional<std::int64_t> largest_batch = {};  // that is asked for
  std::int64_t new_tokens = 50;
  bool uses_cache = true;  // the baseline does
  Truncation truncation = Truncation::none;

  // Along an axis, fewer new tokens show as much in less time.
  std::int64_t axis_new_tokens() const { return std::min<std::int64_t>(16, new_tokens); }
};

using PredictedSeconds = std::function<double(const Case&)>;  // that one run takes

}  // namespace assay

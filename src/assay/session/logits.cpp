#include "assay/session/logits.h"

#include <algorithm>

#include "assay/base/error.h"
#include "assay/generate/steps.h"
#include "assay/model/model.h"

namespace assay {

void for_each_logits(const LoadedModel& loaded, std::span<const TokenId> ids,
                     const std::function<void(std::span<const float>)>& sink,
                     const std::function<bool()>& should_stop) {
  const std::int64_t context = loaded.model->spec().context;
  if (ids.empty()) throw Error("the prompt is empty: logits need at least one token");
  if (static_cast<std::int64_t>(ids.size()) > context)
    throw Error("{} tokens exceed the model's context of {}", ids.size(), context);
  Program& program = loaded.model->program();
  const auto vocab = static_cast<std::size_t>(program.plan().vocab);
  const auto cache = program.make_cache();
  const StepItem item{cache->add_sequence(), ids};
  constexpr std::int64_t kRows = 16;  // that are held at once
  std::vector<float> logits(kRows * vocab);
  const auto take = [&](const StepPart& part) {
    for (std::int64_t first = 0; first < part.rows; first += kRows) {
      std::vector<std::int64_t> some;
      for (std::int64_t row = first; row < std::min(part.rows, first + kRows); ++row)
        some.push_back(part.first_row + row);
      const auto some_logits = std::span(logits).first(some.size() * vocab);
      program.head(some, LogitsSink{some_logits});
      for (std::size_t i = 0; i < some.size(); ++i)
        require_finite(program.plan(), some_logits.subspan(i * vocab, vocab),
                       part.first + first + static_cast<std::int64_t>(i));
      sink(some_logits);
    }
  };
  run_in_steps(
      program, *cache, std::span(&item, 1), [&](std::span<const StepPart> parts) { take(parts.front()); },
      should_stop);
}

Logits compute_logits(const LoadedModel& loaded, std::span<const TokenId> ids,
                      const std::function<bool()>& should_stop) {
  Logits logits{.rows = static_cast<std::int64_t>(ids.size()), .vocab = loaded.model->spec().vocab};
  const auto keep = [&](std::span<const float> some) {
    logits.values.insert(logits.values.end(), some.begin(), some.end());
  };
  for_each_logits(loaded, ids, keep, should_stop);
  return logits;
}

}  // namespace assay

#include "assay/generate/steps.h"

#include <algorithm>
#include <cmath>

#include "assay/base/error.h"

namespace assay {

void run_in_steps(Program& program, KvCache& cache, std::span<const StepItem> items,
                  const std::function<void(std::span<const StepPart>)>& after_step,
                  const std::function<bool()>& should_stop) {
  Batch batch;
  std::vector<StepPart> parts;
  bool has_run = false;
  const auto flush = [&] {
    if (batch.ids.empty()) return;
    if (has_run && should_stop && should_stop()) throw Stopped("stopped while the prompt was read");
    has_run = true;
    batch.wants_all = false;
    program.run(batch, cache);
    after_step(parts);
    batch = {};
    parts.clear();
  };
  for (std::size_t item = 0; item < items.size(); ++item) {
    const std::span<const TokenId> ids = items[item].ids;
    std::int64_t position = cache.length(items[item].sequence);
    const std::int64_t known = position + static_cast<std::int64_t>(ids.size()) - items[item].padding,
                       extent = std::max<std::int64_t>(1, items[item].extent.value_or(known));
    for (std::size_t first = 0; first < ids.size();) {
      const auto held = static_cast<std::int64_t>(batch.ids.size());
      if (held == program.max_rows()) {
        flush();
        continue;
      }
      const auto rows =
          std::min<std::int64_t>(program.max_rows() - held, static_cast<std::int64_t>(ids.size() - first));
      const auto part = ids.subspan(first, static_cast<std::size_t>(rows));
      batch.ids.insert(batch.ids.end(), part.begin(), part.end());
      for (std::int64_t i = 0; i < rows; ++i) {
        batch.positions.push_back(
            static_cast<std::int32_t>(std::max<std::int64_t>(0, position++ - items[item].padding)));
        const std::int64_t token = static_cast<std::int64_t>(first) + i;
        if (items[item].wanted.value_or(token) == token) batch.wanted.push_back(held + i);
      }
      batch.sequences.push_back({.sequence = items[item].sequence,
                                 .first_row = held,
                                 .rows = rows,
                                 .first_key = items[item].padding,
                                 .extent = extent});
      parts.push_back({item, static_cast<std::int64_t>(first), held, rows});
      first += static_cast<std::size_t>(rows);
    }
  }
  flush();
}

std::vector<std::int64_t> rotary_switches(const Plan& plan) {
  std::vector<std::int64_t> switches;
  for (const Op& op : plan.ops)
    if (const auto* rotary = std::get_if<RotaryOp>(&op.kind);
        rotary != nullptr && !rotary->long_frequencies.empty() &&
        std::ranges::find(switches, rotary->original_context) == switches.end())
      switches.push_back(rotary->original_context);
  return switches;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";  // whatever its sign
  if (std::isinf(value)) return value > 0 ? "infinity" : "-infinity";
  return fmt::format("{}", value);
}

void refuse_not_finite(const Plan& plan, const std::string& what) {
  const bool is_float32 = plan.model.ends_with(" in float32");
  throw Error("{}{}: the model's weights or arithmetic are broken; try {}another copy of the model's files",
              plan.model.empty() ? "" : plan.model + ": ", what,
              is_float32 ? "" : "float32, and if that changes nothing, ");
}

void require_finite(const Plan& plan, TokenId chosen, std::optional<std::int64_t> position) {
  if (chosen >= 0) return;
  refuse_not_finite(plan, position ? fmt::format("the logits at position {} are not finite", *position)
                                   : "the logits of the next token are not finite");
}

void require_finite(const Plan& plan, std::span<const float> logits, std::int64_t position) {
  const auto bad =
      std::find_if(logits.begin(), logits.end(), [](float logit) { return !std::isfinite(logit); });
  if (bad == logits.end()) return;
  refuse_not_finite(plan, fmt::format("the logits at position {} are not finite ({} for token id {})",
                                      position, number_text(*bad), bad - logits.begin()));
}

}  // namespace assay

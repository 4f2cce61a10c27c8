#include "assay/generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "assay/base/error.h"
#include "assay/generate/steps.h"

namespace assay {

void check_sampling(const SamplingOptions& options) {
  if (!(options.temperature >= 0) || std::isinf(options.temperature))
    throw FieldError("temperature", "expected a number from 0, found {}", options.temperature);
  if (options.top_k < 0) throw FieldError("top_k", "expected a whole number from 0, found {}", options.top_k);
  if (!(options.top_p > 0 && options.top_p <= 1))
    throw FieldError("top_p", "expected a number above 0 and at most 1, found {}", options.top_p);
  if (!(options.repetition_penalty > 0) || !std::isnormal(static_cast<float>(options.repetition_penalty)))
    throw FieldError("repetition_penalty", "expected a number above 0 that float32 holds, found {}",
                     options.repetition_penalty);
}

Sampler::Sampler(const SamplingOptions& options, std::uint64_t sequence)
    : options_(options), random_(options.seed, sequence) {}

TokenId Sampler::next(std::span<float> logits, std::span<const TokenId> seen, const Process& process) {
  float highest = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    highest = std::max(highest, logits[i]);
    if (std::isnan(logits[i]) || logits[i] == std::numeric_limits<float>::infinity())
      throw LogitsNotFinite("the logits are not finite ({} for token id {})", number_text(logits[i]), i);
  }
  if (std::isinf(highest)) throw LogitsNotFinite("the logits are all -infinity");
  if (options_.repetition_penalty != 1) {  // Keskar et al. 2019
    is_penalized_.assign(logits.size(), false);
    const auto penalty = static_cast<float>(options_.repetition_penalty);
    for (const TokenId id : seen) {
      const auto i = static_cast<std::size_t>(id);
      if (is_penalized_[i]) continue;
      is_penalized_[i] = true;
      logits[i] = logits[i] < 0 ? logits[i] * penalty : logits[i] / penalty;
    }
  }
  if (process) process(logits);
  const auto temperature = static_cast<float>(options_.temperature);
  if (temperature == 0)
    return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  candidates_.clear();
  // A quotient that overflows would tie the likely tokens: then all are taken relative to the highest.
  highest = *std::max_element(logits.begin(), logits.end());
  const float shift = std::isinf(highest / temperature) ? highest : 0.0F;
  for (std::size_t i = 0; i < logits.size(); ++i)
    candidates_.push_back({(logits[i] - shift) / temperature, static_cast<TokenId>(i)});
  keep_top_k();
  keep_top_p();
  return draw();
}

void Sampler::keep_top_k() {
  const auto k = static_cast<std::size_t>(options_.top_k);
  if (k == 0 || k >= candidates_.size()) return;
  std::vector<Candidate> ranked = candidates_;
  const auto kth = ranked.begin() + static_cast<std::ptrdiff_t>(k) - 1;
  std::nth_element(ranked.begin(), kth, ranked.end(),
                   [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
  const float least = kth->logit;
  std::erase_if(candidates_, [least](const Candidate& c) { return c.logit < least; });
}

void Sampler::keep_top_p() {
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  });
  // Relative to the best, so that the largest weight is 1 and none overflows; equal infinities count as
  // equal.
  const float best = candidates_.front().logit;
  double total = 0;
  weights_.clear();
  for (const Candidate& c : candidates_) {
    weights_.push_back(c.logit == best ? 1.0
                                       : std::exp(static_cast<double>(c.logit) - static_cast<double>(best)));
    total += weights_.back();
  }
  if (options_.top_p >= 1) return;
  double before = 0;
  std::size_t kept = 0;
  while (kept < weights_.size() && before < options_.top_p * total) before += weights_[kept++];
  weights_.resize(std::max<std::size_t>(kept, 1));
  candidates_.resize(weights_.size());
}

TokenId Sampler::draw() {
  double total = 0;
  for (const double w : weights_) total += w;
  double rest = random_.uniform() * total;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    rest -= weights_[i];
    if (rest < 0) return candidates_[i].id;
  }
  return candidates_.front().id;  // reached only by rounding
}

}  // namespace assay

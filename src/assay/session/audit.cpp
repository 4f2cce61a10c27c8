#include "assay/session/audit.h"

#include <algorithm>
#include <cmath>

#include "assay/base/error.h"
#include "assay/model/model.h"
#include "assay/text/tokenizer.h"

namespace assay {

namespace {

// What each sequence generated, and the logits each of its tokens was chosen from.
struct GeneratedTexts {
  std::vector<std::vector<TokenId>> ids;
  std::vector<std::vector<std::vector<float>>> logits;
};

class Audit {
 public:
  Audit(const LoadedModel& loaded, const std::vector<Prompt>& prompts, std::int64_t new_tokens,
        const ShouldStop& should_stop)
      : loaded_(loaded), should_stop_(should_stop), new_tokens_(new_tokens) {
    const std::int64_t room = loaded.model->spec().context - new_tokens;
    for (const Prompt& prompt : prompts) {
      std::vector<TokenId> ids = prompt_ids(loaded, prompt);
      truncate(ids, room, Truncation::left, loaded.tokenizer.get());
      if (!ids.empty()) prompts_.push_back(std::move(ids));
    }
    if (prompts_.empty()) throw Error("the audit has no prompt");
    set_tolerance();
  }

  std::vector<AuditRow> run() {
    reference_ = write(true, false, Padding::none);
    measure_deviation();
    rows_.push_back(compare("cache off", write(false, false, Padding::none)));
    if (prompts_.size() > 1) {
      const std::string batch = fmt::format("batch of {}", prompts_.size());
      rows_.push_back(compare(batch, write(true, true, Padding::none)));
      rows_.push_back(compare(batch + ", padded left", write(true, true, Padding::left)));
      rows_.push_back(compare(batch + ", padded right", write(true, true, Padding::right)));
      rows_.push_back(compare(batch + ", padded left, cache off", write(false, true, Padding::left)));
    }
    return std::move(rows_);
  }

 private:
  void set_tolerance() {
    const Precision& precision = loaded_.model->precision();
    looks_across_batch_ = (precision.has_any(formats::kLlmInt8) && precision.outlier_threshold > 0) ||
                          precision.input_scale == InputScale::per_tensor;
    if (precision.has_any(is_multiplied_as_bytes) && precision.dtype == formats::kBfloat16 &&
        !precision.has_int8_activations)
      tolerance_ = 0.1;
    // The library sums in an order of its own from some number of tokens on, and 16-bit types round behind
    // it.
    if (loaded_.config.cuda_gemm != CudaGemm::own) {
      const bool is_float32 = precision.dtype == formats::kFloat32 &&
                              precision.float32_matmul != Float32Matmul::tf32 &&
                              precision.kv_cache == KvFormat::float32;
      tolerance_ = std::max(tolerance_, is_float32 ? 1e-3 : 0.1);
    }
  }

  void measure_deviation() {
    const std::vector<float>& x = reference_.logits.front().front();
    double sum = 0, squares = 0;
    for (const float v : x) {
      sum += static_cast<double>(v);
      squares += static_cast<double>(v) * static_cast<double>(v);
    }
    const auto n = static_cast<double>(x.size());
    tolerance_ *= std::sqrt(std::max(0.0, squares / n - sum * sum / n / n));
  }

  GeneratedTexts write(bool uses_cache, bool is_batch, Padding padding) {
    GeneratedTexts written;
    written.ids.resize(prompts_.size());
    written.logits.resize(prompts_.size());
    for (std::size_t first = 0; first < prompts_.size(); first += is_batch ? prompts_.size() : 1) {
      GenerationOptions options;
      options.max_new_tokens = new_tokens_;
      options.uses_cache = uses_cache;
      options.padding = padding;
      options.pad_token = loaded_.pad_token;
      options.on_logits = [&](std::size_t sequence, std::span<const float> logits) {
        written.logits[first + sequence].emplace_back(logits.begin(), logits.end());
      };
      const auto begin = prompts_.begin() + static_cast<std::ptrdiff_t>(first);
      const GenerationTrace trace =
          generate(loaded_.model->backend(), loaded_.model->program(),
                   is_batch ? prompts_ : std::vector<std::vector<TokenId>>(begin, begin + 1), options, {},
                   should_stop_);
      if (should_stop_ && should_stop_()) throw Error("interrupted");
      for (std::size_t i = 0; i < trace.sequences.size(); ++i)
        written.ids[first + i] = trace.sequences[i].ids;
    }
    return written;
  }

  AuditRow compare(const std::string& what, const GeneratedTexts& other) {
    AuditRow row;
    row.configuration = loaded_.dtype_label;
    row.what = what;
    row.tolerance = tolerance_;
    for (std::size_t i = 0; i < prompts_.size(); ++i) compare_sequence(i, other, row);
    if (row.has_equal_logits && row.has_equal_ids)
      row.verdict = AuditVerdict::equal;
    else if (looks_across_batch_)
      row.verdict = AuditVerdict::differs_by_definition;
    else
      row.verdict =
          row.largest_difference <= tolerance_ ? AuditVerdict::within_tolerance : AuditVerdict::differs;
    return row;
  }

  void compare_sequence(std::size_t i, const GeneratedTexts& other, AuditRow& row) const {
    for (std::size_t step = 0; step < reference_.ids[i].size(); ++step) {
      const std::vector<float>&a = reference_.logits[i][step], &b = other.logits[i][step];
      const TokenId expected = reference_.ids[i][step], found = other.ids[i][step];
      double difference = 0;
      for (std::size_t j = 0; j < a.size(); ++j)
        difference = std::max(difference, std::abs(static_cast<double>(a[j]) - static_cast<double>(b[j])));
      row.largest_difference = std::max(row.largest_difference, difference);
      if (difference != 0 || expected != found) {
        row.has_equal_logits = false;
        if (row.first_divergence.empty())
          row.first_divergence = fmt::format(
              "sequence {}, new token {}: id {} (logit {:.6g}) against {} (logit {:.6g}), logits differ by "
              "at "
              "most {:.3g}",
              i + 1, step + 1, expected, a[static_cast<std::size_t>(expected)], found,
              b[static_cast<std::size_t>(found)], difference);
      }
      if (expected != found) {
        row.has_equal_ids = false;
        return;  // what follows continues another text
      }
    }
  }

  const LoadedModel& loaded_;
  const ShouldStop& should_stop_;
  const std::int64_t new_tokens_;
  std::vector<std::vector<TokenId>> prompts_;
  GeneratedTexts reference_;
  bool looks_across_batch_ = false;
  double tolerance_ = 0;  // that logits may differ by: first in their deviations, then absolute
  std::vector<AuditRow> rows_;
};

}  // namespace

std::vector<AuditRow> audit_equivalence(const LoadedModel& loaded, const std::vector<Prompt>& prompts,
                                        std::int64_t new_tokens, const ShouldStop& should_stop) {
  return Audit(loaded, prompts, new_tokens, should_stop).run();
}

}  // namespace assay

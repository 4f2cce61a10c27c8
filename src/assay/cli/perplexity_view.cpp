#include "assay/cli/perplexity_view.h"

#include <nlohmann/json.hpp>

#include "assay/base/format.h"
#include "assay/cli/console.h"
#include "assay/report/prose/prose.h"
#include "assay/report/table.h"
#include "assay/results/results_json.h"

namespace assay::cli {

namespace {

// What the protocol's own tool prints, where that is more than the token mean.
std::string own_figures(const PerplexityFlags& flags, const ScoredModel& model) {
  const CorpusScore& scored = model.scored;
  switch (protocol_from_name(flags.protocol)) {
    case Protocol::hf:
      if (scored.score.protocol_perplexity != scored.score.perplexity)
        return fmt::format("with windows weighted as in the perplexity guide of Transformers: {:.4f}",
                           scored.score.protocol_perplexity);
      break;
    case Protocol::llama_cpp:
      if (model.errors.independent)
        return fmt::format("llama.cpp's estimate: {:.4f} +/- {:.5f}, which takes tokens as independent",
                           scored.score.perplexity, *model.errors.independent);
      break;
    case Protocol::lm_eval:
      if (scored.word_perplexity())
        return fmt::format(
            "word perplexity {:.4f}, byte perplexity {:.6f}, bits per byte {:.6f} ({} words, {} bytes)",
            *scored.word_perplexity(), *scored.byte_perplexity(), *scored.bits_per_byte(), scored.words,
            scored.bytes);
      break;
    case Protocol::gptq:
      break;
  }
  return "";
}

}  // namespace

nlohmann::ordered_json perplexity_json(const PerplexityFlags& flags, const ScoredModel& model) {
  if (!model.failure.empty())
    return {{"model", model.id}, {"file", flags.scored_file()}, {"error", model.failure}};
  const CorpusScore& scored = model.scored;
  const Score& s = scored.score;
  const auto or_null = [](const std::optional<double>& number) {
    return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json(nullptr);
  };
  return {{"model", model.id},
          {"dtype", model.dtype},
          {"file", flags.scored_file()},
          {"loss", s.loss},
          {"perplexity", s.perplexity},
          {"tokens", s.tokens},
          {"tokens_scored", s.tokens_scored},
          {"windows", s.windows},
          {"standard_error", or_null(model.errors.by_blocks)},
          {"independent_standard_error", or_null(model.errors.independent)},
          {"protocol", s.protocol},
          {"protocol_perplexity", s.protocol_perplexity},
          {"log_likelihood", scored.log_likelihood()},
          {"texts", scored.texts},
          {"words", scored.words > 0 ? nlohmann::ordered_json(scored.words) : nullptr},
          {"bytes", scored.bytes > 0 ? nlohmann::ordered_json(scored.bytes) : nullptr},
          {"word_perplexity", or_null(scored.word_perplexity())},
          {"byte_perplexity", or_null(scored.byte_perplexity())},
          {"bits_per_byte", or_null(scored.bits_per_byte())},
          {"through", flags.through},
          {"corpus_sha256", model.scored.corpus_sha256},
          {"seconds", model.scored.seconds},
          {"sampled", flags.sample > 0},
          {"warnings", to_json(model.warnings)}};
}

nlohmann::ordered_json perplexity_json(const PerplexityFlags& flags, const std::vector<ScoredModel>& models) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const ScoredModel& model : models) {
    nlohmann::ordered_json& own = all.emplace_back(perplexity_json(flags, model));
    if (&model != &models.front())
      own["comparison"] = model.comparison ? to_json(*model.comparison) : nlohmann::ordered_json(nullptr);
  }
  return {{"models", all}};
}

std::string perplexity_table(const std::vector<ScoredModel>& models) {
  report::Table table{{"Model", "Precision", "Loss", "Perplexity", "Ratio", "Verdict"},
                      {false, false, true, true, true, false},
                      {},
                      {0, 0, 0, 0, 0, 1}};
  for (const ScoredModel& model : models) {
    const std::optional<Comparison>& c = model.comparison;
    if (!model.failure.empty()) {
      table.rows.push_back({model.id, "-", "-", "-", "-", "failed"});
      continue;
    }
    table.rows.push_back({model.id, model.dtype, fmt::format("{:.6f}", model.scored.score.loss),
                          fmt::format("{:.4f}", model.scored.score.perplexity),
                          c ? fmt::format("{:.4f}", c->ratio) : "-",
                          &model == &models.front() ? "baseline"
                          : c                       ? report::verdict_word(*c)
                                                    : "not compared"});
  }
  return report::to_text(table, table_width());
}

void show_perplexity(const PerplexityFlags& flags, const ScoredModel& model) {
  if (!model.failure.empty()) {
    const bool names_it = model.failure.starts_with(model.id);
    return note(fmt::format("error: {}{}", names_it ? "" : model.id + ": ", model.failure));
  }
  const Score& s = model.scored.score;
  if (flags.others.empty())
    answer(fmt::format("loss            : {:.6f}\nFinal perplexity: {:.4f}\n", s.loss, s.perplexity));
  if (flags.output.is_quiet) return;
  const std::string who = flags.others.empty() ? "" : model.id + ": ";
  for (const Warning& warning : model.scored.warnings) note("warning: " + who + report::sentence_of(warning));
  note(fmt::format("{}{}: {} of {} tokens scored in {}, {:.2f} s, {:.0f} tokens/s", who, s.protocol,
                   s.tokens_scored, s.tokens, counted(s.windows, "window"), model.scored.seconds,
                   static_cast<double>(s.tokens_scored) / model.scored.seconds));
  if (model.errors.by_blocks)
    note(fmt::format("{}standard error of the perplexity: {:.4f}, from {}", who, *model.errors.by_blocks,
                     model.scored.texts >= 6 ? "texts" : "blocks of 256 tokens"));
  if (const std::string own = own_figures(flags, model); !own.empty()) note(who + own);
}

}  // namespace assay::cli

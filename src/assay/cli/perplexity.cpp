// assay perplexity: one figure of a text file, with its protocol.
#include "assay/session/perplexity.h"
#include "assay/report/prose/prose.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/checkpoint/source.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
#include "assay/cli/other_model.h"
#include "assay/cli/perplexity_view.h"
#include "assay/model/families/families.h"
#include "assay/model/model.h"
#include "assay/model/stored_quantization.h"
#include "assay/report/render.h"
#include "assay/results/judge.h"
#include "assay/results/results_json.h"
#include "assay/session/bos.h"
#include "assay/session/corpus_beginning.h"
#include "assay/session/load_parts.h"
#include "assay/session/resolve.h"
#include "assay/session/sampled_text.h"
#include "assay/statistics/text_error.h"
#include "assay/text/tokenizer.h"

namespace assay::cli {

namespace {

// What stands in a file is no wrong usage.
std::vector<TokenId> ids_of_file(const std::string& file) {
  try {
    return ids_from_text(read_input(file), file);
  } catch (const UsageError& error) {
    throw Error("{}", error.what());
  }
}

std::shared_ptr<const ModelSource> opened(const std::string& model) {
  return first_candidate(candidates_of(model),
                         [](const std::string& candidate) { return open_source(locate_model(candidate)); });
}

Errors errors_of(const CorpusScore& scored) {
  std::vector<double> losses;
  for (const double value : scored.score.log_probabilities) losses.push_back(-value);
  const auto of_perplexity = [&](const std::optional<double>& error) {
    return error ? std::optional(*error * scored.score.perplexity) : std::nullopt;
  };
  return {of_perplexity(statistics::loss_error(losses, scored.lengths)),
          of_perplexity(statistics::independent_error(losses))};
}

// One that is quantized is scored as it is stored, where there are several.
ModelFlags flags_for(const PerplexityFlags& flags, const std::string& model) {
  ModelFlags own = flags.model;
  own.model = model;
  if (flags.others.empty()) return own;
  const auto source = opened(model);
  const std::optional<Precision> stored = stored_precision(*source, spec_from_source(*source));
  if (!stored) return own;
  own.precision = kAutoPrecision;
  own.config = as_stored(own.config, *stored);
  return own;
}

// What is compared between models.
std::vector<TokenId> ids_of_text(const PerplexityFlags& flags, const LoadedModel& loaded) {
  const Newlines newlines = loaded.config.newlines;
  const Tokenizer& tokenizer = *loaded.tokenizer;
  const std::string text =
      flags.max_tokens == 0
          ? read_corpus(flags.scored_file(), newlines).text
          : read_corpus_beginning(flags.file, newlines, tokenizer, flags.max_tokens).read.text;
  std::vector<TokenId> ids = protocol_ids(tokenizer, protocol_from_name(flags.protocol), text);
  if (flags.max_tokens > 0 && flags.max_tokens < std::ssize(ids))
    ids.resize(static_cast<std::size_t>(flags.max_tokens));
  return ids;
}

ScoredModel score_model(const PerplexityFlags& flags, const std::string& model, std::int64_t context,
                        const std::vector<TokenId>& ids) {
  const LoadedModel loaded = flags_for(flags, model).load(!flags.is_ids);
  if (!flags.output.is_quiet) {
    note(loaded.load_line());
    for (const Warning& warning : loaded.warnings) note("warning: " + report::sentence_of(warning));
  }
  Progress progress(flags.output.shows_progress());
  const auto unless_0 = [](std::int64_t number) {
    return number == 0 ? std::nullopt : std::optional(number);
  };
  const ScoreOptions options{
      .context = unless_0(context),
      .stride = unless_0(flags.stride),
      .through = score_through_from_name(flags.through),
      .batch = unless_0(flags.batch),
      .on_progress = [&](std::int64_t done,
                         std::int64_t all) { progress.show(fmt::format("window {} of {}", done, all)); },
      .should_stop = is_interrupted,
      .protocol = protocol_from_name(flags.protocol),
      .bos = flags.bos.empty() ? std::nullopt : std::optional(bos_rule_from_name(flags.bos)),
      .max_tokens = unless_0(flags.max_tokens)};
  ScoredModel result{loaded.id, loaded.dtype_label, {}, {}, {}, "", loaded.warnings, {}};
  if (flags.is_ids) {
    result.scored = score_ids(loaded, ids, options);
  } else {
    result.scored = flags.sentences.empty() ? score_file(loaded, flags.file, options)
                                            : score_sentences(loaded, flags.sentences, options);
    if (!flags.others.empty()) result.ids = ids_of_text(flags, loaded);
  }
  result.errors = errors_of(result.scored);
  result.warnings.insert(result.warnings.end(), result.scored.warnings.begin(), result.scored.warnings.end());
  return result;
}

// With the first: of the same tokens in the same windows, or there is none and a warning says why.
void compare_with(const ScoredModel& first, ScoredModel& model) {
  if (!first.failure.empty() || !model.failure.empty()) return;
  if (model.ids != first.ids) {
    model.scored.warnings.push_back(
        {WarningKind::other_tokens,
         fmt::format("its tokenizer gives the text other tokens than that of {}: their perplexities are not "
                     "compared",
                     first.id)});
    model.warnings.push_back(model.scored.warnings.back());
    return;
  }
  if (model.scored.score.protocol != first.scored.score.protocol) {
    model.scored.warnings.push_back(
        {WarningKind::other_protocol,
         fmt::format("it was scored by '{}' and {} by '{}': their perplexities are not compared",
                     model.scored.score.protocol, first.id, first.scored.score.protocol)});
    model.warnings.push_back(model.scored.warnings.back());
    return;
  }
  std::vector<double> more = first.scored.score.log_probabilities;
  for (std::size_t i = 0; i < more.size(); ++i) more[i] -= model.scored.score.log_probabilities[i];
  Comparison& comparison = model.comparison.emplace(compare_losses(more, kQualityMargin));
  comparison.scenario = Scenario::perplexity;
  comparison.subject = model.id;
  comparison.baseline = first.id;
}

// A model that fails is a row with the reason. What was asked wrong, and Ctrl-C, end the command.
ScoredModel score_or_fail(const PerplexityFlags& flags, const std::string& model, std::int64_t context,
                          const std::vector<TokenId>& ids) try {
  return score_model(flags, model, context, ids);
} catch (const UsageError&) {
  throw;
} catch (const Stopped&) {
  throw;
} catch (const Error& error) {
  if (flags.others.empty()) throw;
  ScoredModel failed;
  failed.id = model;
  failed.failure = error.what();
  return failed;
}

// What windows are of: --context, or the context of the model that has the shortest. Throws UsageError for a
// model that is given twice, and for windows that exceed a model's context.
std::int64_t context_of_all(const PerplexityFlags& flags) {
  std::vector<std::string> models = flags.others;
  models.insert(models.begin(), flags.model.model);
  std::set<std::filesystem::path> paths;
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  for (const std::string& other : flags.others) other_model(other, flags.model.config);
  for (const std::string& model : models) {
    const auto source = opened(model);
    if (!paths.insert(std::filesystem::canonical(source->path())).second)
      throw UsageError("--with: expected a model that is not given yet, found '{}'", model);
    const std::int64_t own = spec_from_source(*source).context;
    if (flags.context > own)
      throw UsageError("--context: expected 2 to {} (the context of {}), found {}", own, model,
                       flags.context);
    shortest = std::min(shortest, own);
  }
  return flags.context != 0 ? flags.context : usual_context(protocol_from_name(flags.protocol), shortest);
}

PerplexityFlags with_baseline_first(PerplexityFlags flags) {
  std::vector<std::string> models = flags.others;
  models.insert(models.begin(), flags.model.model);
  put_baseline_first(models, flags.baseline);
  flags.model.model = models.front();
  flags.others.assign(models.begin() + 1, models.end());
  return flags;
}

// The model in its own precision writes the text; in the precision that was asked for it is scored.
std::vector<ScoredModel> score_sample(PerplexityFlags flags) {
  ModelFlags writer = flags.model;
  writer.precision = kAutoPrecision;
  writer.config = {};
  writer.config.threads = flags.model.config.threads;
  SampledText sample;
  {
    const LoadedModel loaded = writer.load(true);
    const std::int64_t longest = flags.context > 0 ? flags.context : loaded.model->spec().context;
    sample = sample_text(loaded, flags.sample, longest, is_interrupted);
  }
  flags.is_ids = true;
  flags.context = flags.stride = sample.length;
  std::vector<ScoredModel> all{score_model(flags, flags.model.model, sample.length, sample.ids)};
  all.front().scored.score.protocol += "; " + sample.label;
  return all;
}

void check_sample(const PerplexityFlags& flags) {
  if (!flags.file.empty() || !flags.sentences.empty() || flags.is_ids || !flags.others.empty() ||
      !flags.bos.empty() || flags.stride > 0 || flags.max_tokens > 0 || flags.protocol != "hf")
    throw UsageError(
        "--sample: expected neither a text, --ids, --stride, --max-tokens, --bos, another --protocol nor "
        "--with beside it: the "
        "model writes the text, and its sequences are the windows; assay diverge --sample compares models");
}

// One model after the other; ids and log-probabilities are kept of the first alone.
std::vector<ScoredModel> score_models(const PerplexityFlags& flags) {
  const std::int64_t context = flags.others.empty() ? flags.context : context_of_all(flags);
  const std::vector<TokenId> ids = flags.is_ids ? ids_of_file(flags.file) : std::vector<TokenId>{};
  std::vector<ScoredModel> all{score_or_fail(flags, flags.model.model, context, ids)};
  for (const std::string& other : flags.others) {
    all.push_back(score_or_fail(flags, other, context, ids));
    compare_with(all.front(), all.back());
    all.back().ids = {};
    all.back().scored.score.log_probabilities = {};
  }
  std::vector<Comparison*> comparisons;
  for (ScoredModel& model : all)
    if (model.comparison) comparisons.push_back(&*model.comparison);
  judge(comparisons);
  return all;
}

int run_perplexity(const PerplexityFlags& given) {
  const PerplexityFlags flags = with_baseline_first(given);
  protocol_from_name(flags.protocol);
  if (!flags.bos.empty()) bos_rule_from_name(flags.bos);
  score_through_from_name(flags.through);
  if (flags.sample > 0)
    check_sample(flags);
  else if (flags.file.empty() == flags.sentences.empty())
    throw UsageError("FILE: expected a text file, or a list of texts by --sentences, found {}",
                     flags.file.empty()
                         ? "neither. Without a text at hand, --sample scores one that the model "
                           "writes, and assay corpus prepares a downloaded one"
                         : "both");
  if (flags.is_ids && !flags.sentences.empty())
    throw UsageError("--ids: expected FILE with token ids, found --sentences");
  if (flags.max_tokens > 0 && (flags.is_ids || !flags.sentences.empty() || flags.file.ends_with(".jsonl")))
    throw UsageError("--max-tokens: expected one text file, found {}",
                     flags.is_ids ? "--ids" : "a list of texts");
  check_input(flags.file);
  check_input(flags.sentences);
  const std::vector<ScoredModel> models = flags.sample > 0 ? score_sample(flags) : score_models(flags);
  const bool has_failures = std::any_of(models.begin(), models.end(),
                                        [](const ScoredModel& model) { return !model.failure.empty(); });
  const int exit_code = has_failures ? kSomeCasesFailed : 0;
  if (flags.output.is_json) {
    answer_json(
        flags.others.empty() ? "perplexity" : "perplexities",
        flags.others.empty() ? perplexity_json(flags, models.front()) : perplexity_json(flags, models));
    return exit_code;
  }
  if (!flags.others.empty()) answer(perplexity_table(models));
  for (const ScoredModel& model : models) show_perplexity(flags, model);
  return exit_code;
}

}  // namespace

void add_perplexity(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<PerplexityFlags>();
  CLI::App* command = app.add_subcommand("perplexity", "Measure the perplexity of a text file");
  flags->model.add_to(*command);
  command
      ->add_option("--with", flags->others,
                   "Another model to score beside the first, on the same windows; repeat for more [none]")
      ->allow_extra_args(false);
  command->add_option(
      "--baseline", flags->baseline,
      "Model that the others are compared with, as it was given or by its file's name [MODEL]");
  command->add_option("FILE", flags->file,
                      "Text file in UTF-8; named .jsonl, a document in the key text or page of each line");
  command->add_option("--sentences", flags->sentences,
                      "File with a text on each line, scored one by one; the loss is that of all tokens "
                      "together [none]");
  add_sample_flag(*command, flags->sample);
  add_whole(*command, "--context", flags->context,
            "Tokens per window; 0: the model's context, of several models the shortest; llama.cpp 512, gptq "
            "2048, or less where the model has less [0]");
  add_whole(*command, "--stride", flags->stride,
            "Tokens from one window to the next; 0: half the context, or none but for hf [0]");
  add_whole(*command, "--max-tokens", flags->max_tokens,
            "First tokens of the text to score, which may be larger than memory; 0: all [0]");
  command->add_option("--protocol", flags->protocol,
                      "Protocol: hf, as in the perplexity guide of Transformers, llama.cpp, lm-eval or gptq "
                      "[hf]");
  command->add_option("--bos", flags->bos,
                      "Place of the beginning-of-text token: none, first (of the text), each (before every "
                      "window) or replace (the first token of each window) [the protocol's and the "
                      "tokenizer's]");
  command->add_option("--through", flags->through,
                      "Phase that scores the text: prefill, or decode, token by token, whose arithmetic may "
                      "differ [prefill]");
  add_whole(*command, "--batch-size", flags->batch, "Windows computed together [4; through decode 1]", 1);
  command->add_flag("--ids", flags->is_ids, "Read token ids from FILE, not text");
  flags->output.add_to(*command);
  command->footer("Example: assay perplexity demo book.txt --stride 512");
  command->callback([flags, &exit_code] { exit_code = run_perplexity(*flags); });
}

}  // namespace assay::cli

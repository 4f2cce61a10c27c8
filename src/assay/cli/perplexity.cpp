// assay perplexity: one figure of a text file, with its protocol.
#include "assay/session/perplexity.h"
#include "assay/report/prose/prose.h"

#include <optional>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
#include "assay/results/results_json.h"

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

struct PerplexityFlags {
  ModelFlags model;
  OutputFlags output;
  std::string file, protocol = "hf", through = "prefill";
  std::int64_t context = 0, stride = 0, batch = 0;
  bool is_ids = false;
};

int run_perplexity(const PerplexityFlags& flags) {
  if (flags.protocol != "hf") throw UsageError("--protocol: expected hf, found '{}'", flags.protocol);
  const ScoreThrough through = score_through_from_name(flags.through);
  const LoadedModel loaded = flags.model.load(!flags.is_ids);
  if (!flags.output.is_quiet) {
    note(loaded.load_line());
    for (const Warning& warning : loaded.warnings) note("warning: " + report::sentence_of(warning));
  }
  Progress progress(flags.output.shows_progress());
  const auto unless_0 = [](std::int64_t number) {
    return number == 0 ? std::nullopt : std::optional(number);
  };
  const ScoreOptions options{
      .context = unless_0(flags.context),
      .stride = unless_0(flags.stride),
      .through = through,
      .batch = unless_0(flags.batch),
      .on_progress = [&](std::int64_t done,
                         std::int64_t all) { progress.show(fmt::format("window {} of {}", done, all)); },
      .should_stop = is_interrupted};
  const CorpusScore scored = flags.is_ids ? score_ids(loaded, ids_of_file(flags.file), options)
                                          : score_file(loaded, flags.file, options);
  progress.clear();
  const Score& s = scored.score;
  std::vector<Warning> warnings = loaded.warnings;
  warnings.insert(warnings.end(), scored.warnings.begin(), scored.warnings.end());
  if (flags.output.is_json) {
    answer_json({{"model", loaded.id},
                 {"dtype", loaded.dtype_label},
                 {"file", flags.file},
                 {"loss", s.loss},
                 {"perplexity", s.perplexity},
                 {"tokens", s.tokens},
                 {"tokens_scored", s.tokens_scored},
                 {"windows", s.windows},
                 {"standard_error", nullptr},
                 {"protocol", s.protocol},
                 {"through", name_of(through)},
                 {"corpus_sha256", scored.corpus_sha256},
                 {"seconds", scored.seconds},
                 {"warnings", to_json(warnings)}});
    return 0;
  }
  answer(fmt::format("loss            : {:.6f}\nFinal perplexity: {:.4f}\n", s.loss, s.perplexity));
  if (!flags.output.is_quiet)
    for (const Warning& warning : scored.warnings) note("warning: " + report::sentence_of(warning));
  if (!flags.output.is_quiet)
    note(fmt::format("{}: {} of {} tokens scored in {} windows, {:.2f} s, {:.0f} tokens/s", s.protocol,
                     s.tokens_scored, s.tokens, s.windows, scored.seconds,
                     static_cast<double>(s.tokens_scored) / scored.seconds));
  return 0;
}

}  // namespace

void add_perplexity(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<PerplexityFlags>();
  CLI::App* command = app.add_subcommand("perplexity", "Measure the perplexity of a text file");
  flags->model.add_to(*command);
  command->add_option("FILE", flags->file, "Text file in UTF-8")->required();
  add_whole(*command, "--context", flags->context, "Tokens per window; 0: the model's context [0]");
  add_whole(*command, "--stride", flags->stride,
            "Tokens from one window to the next; 0: half the context [0]");
  command->add_option("--protocol", flags->protocol,
                      "Protocol of the windows: hf, as in the perplexity guide of Transformers [hf]");
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

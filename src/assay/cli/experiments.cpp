// assay sweep, ablate, probe, tradeoff: one experiment each.
#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/measure.h"

namespace assay::cli {

namespace {

struct SweepFlags {
  MeasureFlags measure;
  PromptFlags prompt;
  std::vector<std::int64_t> lengths, batches, threads;
  std::int64_t new_tokens = 50;
  std::string base, padding = "none";
  bool has_no_cache = false;

  std::vector<Prompt> prompts() const { return prompt.is_empty() ? std::vector<Prompt>() : prompt.read(); }
};
using Shared = std::shared_ptr<SweepFlags>;

void add_prompts(CLI::App& app, SweepFlags& flags) {
  app.add_option("-p,--prompt", flags.prompt.prompts, "A prompt; again for more")->allow_extra_args(false);
  app.add_option("--prompts-file", flags.prompt.prompts_file, "A file with a prompt on each line");
}

void add_new_tokens(CLI::App& app, SweepFlags& flags) {
  add_whole(app, "-n,--max-new-tokens", flags.new_tokens,
            fmt::format("New tokens (default {})", flags.new_tokens), 1);
}

void add_lengths(CLI::App& sweep, int& exit_code, const std::string& line) {
  auto flags = std::make_shared<SweepFlags>();
  CLI::App* command = sweep.add_subcommand("lengths", "Latency and speed against the length of the prompt");
  flags->measure.add_to(*command, true);
  add_whole_list(*command, "--lengths", flags->lengths,
                 "Prompt lengths in tokens (default 32,128,512,0; 0: the longest that fits)");
  command->add_option("--base", flags->base, "The text that is repeated to each length");
  add_new_tokens(*command, *flags);
  command->add_flag("--no-cache", flags->has_no_cache, "Generate without a KV cache");
  command->footer("Example: assay sweep lengths demo --lengths 32,128,512");
  command->callback([flags, line, command, &exit_code] {
    LengthsOptions options;
    if (!flags->lengths.empty()) options.lengths = flags->lengths;
    if (!flags->base.empty()) options.base = flags->base;
    options.new_tokens = flags->new_tokens;
    options.uses_cache = !flags->has_no_cache;
    exit_code = measure(
        flags->measure, *command, line, [&](const ExperimentContext& l) { return lengths_cases(l, options); },
        [&](const ExperimentContext& l) { return run_for_varied_lengths(l, options); });
  });
}

void add_precisions(CLI::App& sweep, int& exit_code, const std::string& line) {
  auto flags = std::make_shared<SweepFlags>();
  CLI::App* command = sweep.add_subcommand("precisions", "One prompt in every precision");
  flags->measure.add_to(*command, true);
  add_prompts(*command, *flags);
  add_new_tokens(*command, *flags);
  command->footer("Example: assay sweep precisions demo --precision float32,int8,nf4+head");
  command->callback([flags, line, command, &exit_code] {
    PrecisionsOptions options;
    options.precisions = flags->measure.precisions();
    if (const auto prompts = flags->prompts(); !prompts.empty()) options.prompt = prompts.front();
    options.new_tokens = flags->new_tokens;
    exit_code = measure(
        flags->measure, *command, line,
        [&](const ExperimentContext& l) { return precisions_cases(l, options); },
        [&](const ExperimentContext& l) { return run_varied_precision(l, options); });
  });
}

void add_batches(CLI::App& sweep, int& exit_code, const std::string& line) {
  auto flags = std::make_shared<SweepFlags>();
  CLI::App* command = sweep.add_subcommand("batches", "The same prompts one by one and several at once");
  flags->measure.add_to(*command, true);
  add_prompts(*command, *flags);
  add_whole_list(*command, "--batch-size", flags->batches, "Batch sizes (default 1,4,8)", 1);
  command->add_option("--padding", flags->padding,
                      "left, right or none (the default): how prompts are padded");
  add_new_tokens(*command, *flags);
  command->footer("Example: assay sweep batches demo --batch-size 1,2,4,8");
  command->callback([flags, line, command, &exit_code] {
    BatchedOptions options;
    options.prompts = flags->prompts();
    if (!flags->batches.empty()) options.batch_sizes = flags->batches;
    options.padding = padding_from_name(flags->padding);
    options.new_tokens = flags->new_tokens;
    exit_code = measure(
        flags->measure, *command, line, [&](const ExperimentContext& l) { return batched_cases(l, options); },
        [&](const ExperimentContext& l) { return measure_batched(l, options); });
  });
}

void add_threads(CLI::App& sweep, int& exit_code, const std::string& line) {
  auto flags = std::make_shared<SweepFlags>();
  CLI::App* command = sweep.add_subcommand("threads", "How speed grows with threads, and how many to use");
  flags->measure.add_to(*command, true);
  command->remove_option(command->get_option("--threads"));
  add_whole_list(*command, "-t,--threads", flags->threads,
                 "Numbers of threads (default 1, 2, 4, ... and all)", 1, 1024);
  add_prompts(*command, *flags);
  add_new_tokens(*command, *flags);
  command->footer("Example: assay sweep threads demo");
  command->callback([flags, line, command, &exit_code] {
    ThreadsOptions options;
    options.threads = flags->threads;
    if (const auto prompts = flags->prompts(); !prompts.empty()) options.prompt = prompts.front();
    options.new_tokens = flags->new_tokens;
    exit_code = measure(
        flags->measure, *command, line, [&](const ExperimentContext& l) { return threads_cases(l, options); },
        [&](const ExperimentContext& l) { return run_for_varied_threads(l, options); });
  });
}

void add_ablation(CLI::App& ablate, int& exit_code, const std::string& line, bool is_cache) {
  auto flags = std::make_shared<SweepFlags>();
  flags->new_tokens = 32;
  CLI::App* command = is_cache
                          ? ablate.add_subcommand("cache", "With and without the KV cache")
                          : ablate.add_subcommand("padding", "A batch padded left, right and not at all");
  flags->measure.add_to(*command, true);
  if (is_cache)
    add_whole_list(*command, "--lengths", flags->lengths, "Prompt lengths in tokens (default 32,128)", 1);
  if (!is_cache) add_prompts(*command, *flags);
  add_new_tokens(*command, *flags);
  command->footer(is_cache ? "Example: assay ablate cache demo --lengths 32,128,256"
                           : "Example: assay ablate padding demo");
  command->callback([flags, line, command, is_cache, &exit_code] {
    AblationOptions options;
    options.has_cache = is_cache;
    options.has_padding = !is_cache;
    if (!flags->lengths.empty()) options.lengths = flags->lengths;
    options.padded_prompts = flags->prompts();
    options.new_tokens = flags->new_tokens;
    exit_code = measure(
        flags->measure, *command, line,
        [&](const ExperimentContext& l) { return ablation_cases(l, options); },
        [&](const ExperimentContext& l) { return ablate_cache_and_padding(l, options); });
  });
}

}  // namespace

void add_sweep(CLI::App& app, int& exit_code, const std::string& command_line) {
  CLI::App* sweep =
      app.add_subcommand("sweep", "Measure along one axis: lengths, precisions, batches or threads");
  sweep->require_subcommand(1);
  add_lengths(*sweep, exit_code, command_line);
  add_precisions(*sweep, exit_code, command_line);
  add_batches(*sweep, exit_code, command_line);
  add_threads(*sweep, exit_code, command_line);
  sweep->footer("Example: assay sweep lengths demo");
}

void add_ablate(CLI::App& app, int& exit_code, const std::string& command_line) {
  CLI::App* ablate = app.add_subcommand(
      "ablate", "Measure one switch, cache or padding, and audit that it changes no result");
  ablate->require_subcommand(1);
  add_ablation(*ablate, exit_code, command_line, true);
  add_ablation(*ablate, exit_code, command_line, false);
  ablate->footer("Example: assay ablate cache demo");
}

void add_probe(CLI::App& app, int& exit_code, const std::string& command_line) {
  auto flags = std::make_shared<SweepFlags>();
  CLI::App* command = app.add_subcommand("probe", "Edge prompts beside a typical one");
  flags->measure.add_to(*command, true);
  add_prompts(*command, *flags);
  add_new_tokens(*command, *flags);
  command->footer("Example: assay probe demo -p 'A prompt of my own'");
  command->callback([flags, command_line, command, &exit_code] {
    EdgeOptions options;
    options.new_tokens = flags->new_tokens;
    for (const Prompt& prompt : flags->prompts())
      options.more.emplace_back(fmt::format("own prompt {}", options.more.size() + 1), prompt);
    exit_code = measure(
        flags->measure, *command, command_line,
        [&](const ExperimentContext& l) { return edge_cases(l, options); },
        [&](const ExperimentContext& l) { return probe_edge_prompts(l, options); });
  });
}

void add_tradeoff(CLI::App& app, int& exit_code, const std::string& command_line) {
  auto flags = std::make_shared<SweepFlags>();
  auto corpus = std::make_shared<std::string>(), through = std::make_shared<std::string>("prefill");
  CLI::App* command = app.add_subcommand("tradeoff", "Every precision: memory, speed, quality, texts");
  flags->measure.add_to(*command, true);
  add_prompts(*command, *flags);
  add_new_tokens(*command, *flags);
  command->add_option("--corpus", *corpus, "The text to score (default: the one that ships)");
  command->add_option("--through", *through,
                      "prefill (the default) or decode, token by token: how the text is scored");
  command->footer("Example: assay tradeoff demo --precision float32,int8,nf4,fp4");
  command->callback([flags, corpus, through, command_line, command, &exit_code] {
    PerplexityOptions quality;
    quality.through = score_through_from_name(*through);
    TradeoffOptions options;
    options.precisions = flags->measure.precisions();
    if (const auto prompts = flags->prompts(); !prompts.empty()) options.prompts = prompts;
    options.new_tokens = flags->new_tokens;
    quality.corpus = corpus->empty() ? shipped_file("texts/evaluate.txt") : std::filesystem::path(*corpus);
    exit_code = measure(
        flags->measure, *command, command_line,
        [&](const ExperimentContext& l) { return tradeoff_cases(l, options); },
        [&](const ExperimentContext& l) {
          ExperimentResult result = run_quantization_tradeoff(l, options);
          if (result.is_interrupted) return result;
          for (const Case& what : tradeoff_cases(l, options))
            quality.configurations.push_back(what.configuration);
          result.add(compare_perplexity(l, quality));
          merge_quality(result.rows);
          return result;
        });
  });
}

}  // namespace assay::cli

// assay generate: text, streamed; the figures go to standard error.
#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
#include "assay/model/model.h"
#include "assay/report/digits.h"
#include "assay/report/prose/prose.h"
#include "assay/results/results_json.h"
#include "assay/session/generation_rules.h"
#include "assay/session/load_parts.h"
#include "assay/text/tokenizer.h"

namespace assay::cli {

namespace {

struct GenerateFlags {
  ModelFlags model;
  PromptFlags prompt;
  SamplingFlags sampling;
  OutputFlags output;
  std::int64_t max_new_tokens = 50;
  std::string generation_config = "greedy";
  bool has_no_cache = false, ignores_end = false, has_no_warm_up = false;

  // Throws UsageError for a name other than "greedy" and "model".
  bool follows() const {
    if (generation_config != "greedy" && generation_config != "model")
      throw UsageError("--generation-config: expected greedy or model, found '{}'", generation_config);
    return generation_config == "model";
  }
};

// What is left out where the model's generation configuration is followed: only what is not supported.
void follow_in_warnings(LoadedModel& loaded) {
  const ModelSpec& spec = loaded.model->spec();
  const GenerationRules rules = generation_rules(loaded.model->source(), spec.end_tokens, spec.vocab);
  std::erase_if(loaded.warnings, [](const Warning& w) { return w.kind == WarningKind::generation_config; });
  if (std::string text = left_out_of(rules, true); !text.empty())
    loaded.warnings.push_back({WarningKind::generation_config, std::move(text)});
}

std::string shown_text(const LoadedModel& loaded, const TimedGeneration& timed) {
  if (loaded.tokenizer != nullptr) return loaded.tokenizer->decode_after(timed.prompt_ids, timed.ids, true);
  return fmt::format("{}", fmt::join(timed.ids, " "));
}

// From the start of the process to its answer.
struct Around {
  double startup_s = 0, load_s = 0;  // tokenizer and everything else of loading included
};

nlohmann::ordered_json phases_of(const TimedGeneration& timed, const Around& around) {
  const double decode = timed.decode_tokens_per_sec > 0
                            ? static_cast<double>(timed.tokens_generated - 1) / timed.decode_tokens_per_sec
                            : 0;
  const double prefill = static_cast<double>(timed.prompt_ids.size()) / timed.prefill_tokens_per_sec;
  return {{"startup_s", around.startup_s},
          {"load_s", around.load_s},
          {"warm_up_s", timed.warm_up_s},
          {"tokenize_s", timed.tokenize_s},
          {"prefill_s", prefill},
          {"decode_s", decode},
          {"sampling_s", timed.sampling_s},
          {"detokenize_s", timed.detokenize_s},
          {"process_s", process_age().value}};
}

nlohmann::ordered_json to_json(const LoadedModel& loaded, const TimedGeneration& timed,
                               const Around& around) {
  nlohmann::ordered_json json{{"model", loaded.id},
                              {"dtype", loaded.dtype_label},
                              {"device", loaded.model->backend().device().text()},
                              {"kernels", loaded.model->backend().kernels()},
                              {"tuning", loaded.model->backend().tuning()},
                              {"threads", loaded.model->backend().threads()},
                              {"prompt_ids", timed.prompt_ids},
                              {"ids", timed.ids},
                              {"text", shown_text(loaded, timed)},
                              {"stop", name_of(timed.stop)},
                              {"total_latency_s", timed.total_latency_s},
                              {"tokens_generated", timed.tokens_generated},
                              {"tokens_per_sec", timed.tokens_per_sec},
                              {"avg_latency_per_token_ms", timed.avg_latency_per_token_ms},
                              {"time_to_first_token_s", timed.time_to_first_token_s},
                              {"prefill_tokens_per_sec", timed.prefill_tokens_per_sec}};
  json["decode_tokens_per_sec"] = nullptr;
  if (timed.tokens_generated > 1) json["decode_tokens_per_sec"] = timed.decode_tokens_per_sec;
  if (const auto share = head_computed_share(*loaded.model)) json["head_computed_share"] = *share;
  json["tokenize_s"] = timed.tokenize_s;
  json["sampling_s"] = timed.sampling_s;
  json["load_s"] = loaded.model->load_time().value;
  json["phases"] = phases_of(timed, around);
  json["token_times_s"] = timed.token_times_s;
  json["warnings"] = to_json(loaded.warnings);
  return json;
}

std::string figures_line(const TimedGeneration& timed) {
  std::string line = fmt::format(
      "{} prompt + {} new tokens in {} s: {:.1f} tokens/s, {} ms per token; TTFT {} ms, prefill {:.0f} "
      "tokens/s",
      timed.prompt_ids.size(), timed.tokens_generated, report::shown_number(timed.total_latency_s, {}),
      timed.tokens_per_sec, report::shown_number(timed.avg_latency_per_token_ms, {}),
      report::shown_number(1e3 * timed.time_to_first_token_s, {}), timed.prefill_tokens_per_sec);
  if (timed.tokens_generated > 1)
    line += fmt::format(", decode {:.1f} tokens/s", timed.decode_tokens_per_sec);
  return line;
}

TimedGeneration run_one(const LoadedModel& loaded, const Prompt& prompt, const GenerateFlags& flags,
                        bool is_first) {
  TimeOptions options;
  options.max_new_tokens = flags.max_new_tokens;
  options.uses_cache = !flags.has_no_cache;
  options.stops_at_end = !flags.ignores_end;
  options.truncation = flags.prompt.truncation();
  options.has_warm_up = is_first && !flags.has_no_warm_up;
  options.sampling = flags.sampling.checked();
  options.follows_generation_config = flags.follows();
  options.should_stop = is_interrupted;
  if (flags.output.is_json) return time_generate(loaded, prompt, options);
  if (loaded.tokenizer == nullptr) {
    options.on_token = [](std::size_t, TokenId id) { answer(fmt::format("{} ", id)); };
    TimedGeneration timed = time_generate(loaded, prompt, options);
    answer("\n");
    return timed;
  }
  options.on_text = answer_text;
  TimedGeneration timed = time_generate(loaded, prompt, options);
  answer_text("\n");
  return timed;
}

int run_generate(const GenerateFlags& flags) {
  const std::vector<Prompt> prompts = flags.prompt.read({flags.model.config.newlines, flags.output.is_quiet});
  flags.sampling.checked();
  flags.prompt.truncation();
  flags.follows();
  Around around{.startup_s = process_age().value};
  const TimePoint load_begin = Clock::now();
  LoadedModel loaded = flags.model.load(!flags.prompt.is_ids_only());
  around.load_s = elapsed(load_begin, Clock::now()).value;
  if (flags.follows()) follow_in_warnings(loaded);
  if (!flags.output.is_quiet) {
    note(loaded.load_line());
    for (const Warning& warning : loaded.warnings) note("warning: " + report::sentence_of(warning));
  }
  for (const Prompt& prompt : prompts)
    prompt_ids(loaded, prompt);  // a bad one is known before the first text is written
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < prompts.size() && !is_interrupted(); ++i) {
    const TimedGeneration timed = run_one(loaded, prompts[i], flags, i == 0);
    if (const auto whole = prompt_ids(loaded, prompts[i]).size(); whole > timed.prompt_ids.size())
      note(fmt::format(
          "warning: prompt {} was cut on the {} from {} tokens to {}, because with {} new tokens it "
          "exceeds the context of {}",
          i + 1, flags.prompt.truncate, whole, timed.prompt_ids.size(), flags.max_new_tokens,
          loaded.model->spec().context));
    if (flags.output.is_json) all.push_back(to_json(loaded, timed, around));
    if (!flags.output.is_quiet) note(figures_line(timed));
  }
  if (flags.output.is_json) {
    if (prompts.size() == 1)
      answer_json("generation", all.empty() ? nlohmann::ordered_json::object() : all[0]);
    else
      answer_json("generations", {{"generations", all}});
  }
  return is_interrupted() ? kInterrupted : 0;
}

}  // namespace

void add_generate(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* command =
      app.add_subcommand("generate", "Continue a prompt: text to standard output, timings to standard error");
  flags->model.add_to(*command);
  flags->prompt.add_to(*command);
  add_whole(*command, "-n,--max-new-tokens", flags->max_new_tokens, "New tokens at most [50]", 1);
  command->add_flag("--no-cache", flags->has_no_cache,
                    "Compute the whole sequence again for each token, without a KV cache");
  command->add_flag("--ignore-end", flags->ignores_end,
                    "Generate exactly as many new tokens as asked for: do not stop at end-of-text");
  command->add_option("--generation-config", flags->generation_config,
                      "Rules beside --temperature and others: greedy has none; model follows "
                      "generation_config.json as Transformers does: penalty, lengths, suppressed and forced "
                      "tokens, ends [greedy]");
  command->add_flag("--no-warm-up", flags->has_no_warm_up, "Do not warm up before the timed run");
  flags->sampling.add_to(*command);
  flags->output.add_to(*command);
  command->footer("Example: assay generate demo -p \"Once upon a time\" -n 40");
  command->callback([flags, &exit_code] { exit_code = run_generate(*flags); });
}

}  // namespace assay::cli

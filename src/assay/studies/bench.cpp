#include "assay/studies/bench.h"

#include <algorithm>

#include "assay/base/cpu.h"
#include "assay/base/error.h"
#include "assay/harness/sweep.h"
#include "assay/studies/bench_figures.h"
#include "assay/studies/precision_cases.h"
#include "assay/studies/study.h"

namespace assay {

namespace {

std::vector<BenchCase> tests_of(const BenchOptions& options) {
  std::vector<BenchCase> tests;
  for (const std::int64_t depth : options.depths)
    for (const std::int64_t batch : options.batches) {
      for (const std::int64_t tokens : options.prompt_tokens)
        if (tokens > 0) tests.push_back({tokens, 0, depth, batch});
      for (const std::int64_t tokens : options.new_tokens)
        if (tokens > 0) tests.push_back({0, tokens, depth, batch});
    }
  if (tests.empty())
    throw FieldError("prompt_tokens", "expected a length above 0 here or in new_tokens, found none");
  return tests;
}

// Each of a list once, in its order.
template <typename T>
void add_once(std::vector<T>& all, T value) {
  if (std::find(all.begin(), all.end(), value) == all.end()) all.push_back(std::move(value));
}

std::vector<RunConfig> configurations_of(const ExperimentContext& context, const BenchOptions& options) {
  std::vector<RunConfig> precisions, all;
  std::vector<std::string> asked = options.precisions;
  if (asked.empty() && !context.models.empty()) asked = {std::string(kAutoPrecision)};
  for (const RunConfig& common : commons_of(context))
    for (const std::string& text : texts_for(context, common, asked)) {
      RunConfig configuration = run_config_from_text(text, common);
      // What "auto" is, so that the row says so.
      if (!configuration.precision && !configuration.recipe &&
          !context.model_of(configuration).is_quantized_already)
        configuration.precision = Preset::float32;
      add_once(precisions, context.with_origin(std::move(configuration)));
    }
  if (asked.empty()) precisions.push_back(context.baseline);
  for (const RunConfig& precision : precisions) {
    if (options.threads.empty()) add_once(all, precision);
    for (const std::int64_t count : options.threads) {
      if (count < 1 || count > 1024)
        throw FieldError("threads", "expected whole numbers from 1 to 1024, found {}", count);
      RunConfig configuration = precision;
      configuration.threads = static_cast<int>(count);
      add_once(all, std::move(configuration));
    }
  }
  return all;
}

// A prompt is read as far as its next token. A token is decoded from the one before it, the first from a
// random one.
Case case_of(const ExperimentContext& context, const RunConfig& configuration, const BenchCase& test) {
  const bool is_prefill = test.prompt_tokens > 0;
  Case spec =
      baseline_case(context, Scenario::bench, fmt::format("{}, {}", test.name(), configuration.label()), {},
                    is_prefill ? 1 : test.new_tokens);
  spec.configuration = configuration;
  spec.random_prompts = RandomPrompts{
      .sequences = test.batch, .tokens = is_prefill ? test.prompt_tokens : 1, .depth = test.depth};
  spec.parameters = {{"test", test.name()},
                     {"prompt_tokens", std::to_string(test.prompt_tokens)},
                     {"new_tokens", std::to_string(test.new_tokens)},
                     {"depth", std::to_string(test.depth)},
                     {"batch", std::to_string(test.batch)}};
  return spec;
}

std::vector<Case> bench_cases(const ExperimentContext& context, const BenchOptions& options) {
  const std::vector<BenchCase> tests = tests_of(options);
  std::vector<Case> cases;
  for (const RunConfig& configuration : configurations_of(context, options))
    for (const BenchCase& test : tests) cases.push_back(case_of(context, configuration, test));
  for (const RunConfig& common : commons_of(context))
    for (const BenchCase& test : tests)
      if (const std::int64_t tokens = test.depth + test.prompt_tokens + test.new_tokens,
          length = context.model_of(common).context_length;
          tokens > length)
        throw Error("{}{}: {} tokens exceed the model's context of {}",
                    common.model ? *common.model + ", " : "", test.name(), tokens, length);
  return cases;
}

void replace(Row& row, std::string_view key, const std::string& text) {
  for (auto& [name, value] : row.parameters)
    if (name == key) value = text;
}

Row bench_row_of(const CaseResult& result, const ExperimentContext& context) {
  Row row = row_of(result, context);
  std::erase_if(row.parameters, [](const auto& parameter) {
    return parameter.first == "max_new_tokens" || parameter.first == "cache" ||
           parameter.first == "batch_size" || parameter.first == "padding";
  });
  row.parameters.emplace_back("weight_bytes", std::to_string(result.facts.weight_bytes));
  if (result.spec.configuration.model)
    row.parameters.emplace_back("model_parameters", std::to_string(result.facts.model.parameters));
  if (result.facts.threads == 0) {  // what did not load
    RunConfig asked = result.spec.configuration;
    replace(row, "threads", std::to_string(asked.threads.value_or(default_thread_count())));
    asked.threads.reset();
    replace(row, "precision", asked.label());
  }
  if (!result.is_measured()) return row;
  const Sample& first = result.samples.begin()->second;
  const BenchCase spec = figures_of(row).spec;
  // A run counts its new tokens, a test those that it reads or decodes.
  const double per_token = static_cast<double>(first.new_tokens) / static_cast<double>(spec.tokens());
  for (const char* tag : {"bytes_per_token", "flops_per_token", "energy_per_token_j"})
    if (const Value* value = row.find(tag)) row.set(tag, value->value * per_token);
  set_figures(row, figures_of(row));
  return row;
}

SweepOptions sweep_of_a_test(SweepOptions sweep) {
  sweep.repeats = sweep.repeats.value_or(kBenchRepeats);
  sweep.processes = 1;
  sweep.is_in_series = true;
  return sweep;
}

double predicted_bench_s(const ExperimentContext& context, const BenchOptions& options,
                         const PredictedSeconds& seconds_of) {
  double all = 0;
  for (const Case& spec : bench_cases(context, options))
    all += predicted_sweep_s({spec}, sweep_of_a_test(context.sweep), seconds_of);
  return all;
}

}  // namespace

std::string BenchCase::name() const {
  return (prompt_tokens > 0 ? fmt::format("pp{}", prompt_tokens) : fmt::format("tg{}", new_tokens)) +
         (depth > 0 ? fmt::format(" @ d{}", depth) : "") + (batch > 1 ? fmt::format(" b{}", batch) : "");
}

ExperimentResult measure_bench(const ExperimentContext& context, const BenchOptions& options) {
  const std::vector<Case> cases = bench_cases(context, options);
  const SweepOptions sweep = sweep_of_a_test(context.sweep);
  context.sessions->facts(cases.front().configuration);  // what does not load is said before any test
  ExperimentResult result;
  for (std::size_t i = 0; i < cases.size() && !result.is_interrupted; ++i) {
    // One model at a time.
    if (i > 0 && !(cases[i].configuration == cases[i - 1].configuration)) context.sessions->end_all();
    const SweepResult swept =
        run_sweep(*context.sessions, fmt::format("test {} of {}", i + 1, cases.size()), {cases[i]}, sweep);
    result.is_interrupted = swept.is_interrupted;
    for (const CaseResult& c : swept.cases)
      if (!swept.is_interrupted || static_cast<std::int64_t>(c.samples.size()) == *sweep.repeats)
        result.rows.push_back(bench_row_of(c, context));
  }
  return result;
}

Study bench_study() {
  using Options = BenchOptions;
  return to_study<Options>(
      {.name = "bench",
       .title = "Prefill and decode",
       .description = "Measure prefill and decode speed as llama-bench does, beside the rooflines",
       .command = "bench",
       .example = "assay bench demo -p 128,512 -n 64 -d 0,256 --precision float32,bfloat16",
       .options = {option("precision", &Options::precisions, "Precisions to measure"),
                   option("n-prompt", &Options::prompt_tokens,
                          "Prompt lengths to prefill, in tokens; 0: none",
                          {.letter = 'p', .field = "prompt_tokens"}),
                   option("n-gen", &Options::new_tokens, "Numbers of tokens to decode; 0: none",
                          {.letter = 'n', .field = "new_tokens"}),
                   option("n-depth", &Options::depths, "Numbers of tokens already in the KV cache",
                          {.letter = 'd', .field = "depths"}),
                   option("batch-size", &Options::batches, "Batch sizes",
                          {.letter = 'b', .min = 1, .max = 4096, .field = "batches"}),
                   option("threads", &Options::threads, "Numbers of threads",
                          {.letter = 't',
                           .min = 1,
                           .max = 1024,
                           .shown_default = "one for each core this process may use"})},
       .has_own_command = true,
       .cases = bench_cases,
       .run = measure_bench,
       .predict_s = predicted_bench_s});
}

}  // namespace assay

// Runs of several studies, and what is said of their cases: times left, shared options, and each sentence at
// its limit.
#include <gtest/gtest.h>

#include <cmath>

#include "assay/base/error.h"
#include "assay/harness/journal.h"
#include "assay/studies/registry.h"
#include "assay/studies/suite_plan.h"
#include "support/prose.h"
#include "support/scripted_model.h"
#include "support/temporary_folder.h"
#include "support/timed_session.h"

namespace assay {
namespace {

using test::kDeviation;
using test::ScriptedStudies;
using Tokens = std::vector<TokenId>;

LengthsOptions lengths_of(std::vector<std::int64_t> lengths) {
  return {.lengths = std::move(lengths), .new_tokens = 4};
}

TEST(StudyRuns, TellTheTimeLeftOfAllParts) {
  test::TimedScript script;
  script.first_s = 2;
  Sessions sessions = test::timed_sessions(script, false);
  ExperimentContext context;
  context.sessions = &sessions;
  context.context_length = 64;
  context.tokenizer = test::fixture_tokenizer();
  context.sweep.clock = script.clock();
  context.sweep.repeats = 2;
  std::vector<std::string> told;
  context.sweep.on_progress = [&](const std::string& now, std::int64_t done, std::int64_t all,
                                  std::optional<double> left) {
    told.push_back(
        fmt::format("{} | {} of {} | {}", now, done, all, left ? fmt::format("{:.2f}", *left) : "-"));
  };
  const std::vector<PlannedStudy> plan = {
      {&study_named("noise"), NoiseOptions{}},  // does nothing in one process
      {&study_named("lengths"), lengths_of({4})},
      {&study_named("batches"), BatchedOptions{.prompts = {Tokens{1}}, .batch_sizes = {1}, .new_tokens = 4}}};
  run_studies(context, plan, [](const Case&) { return 1.0; });
  // Each part is predicted to take three visits' worth of a start, two warm-ups and two rounds of 1.02 s.
  const VisitPlan visits = plan_visits({0.15 + 2 * 1.02, 1.02}, context.sweep);
  const double predicted = visits.processes * (0.15 + (2 + visits.rounds) * 1.02);
  ASSERT_EQ(told.size(), 6U);
  EXPECT_EQ(told[0],
            fmt::format("part 1 of 2, Prompt lengths: warming up 4 tokens | 0 of 2 | {:.2f}", 2 * predicted));
  // The last round of the first part takes a second, and the second part all of its own.
  EXPECT_EQ(told[2].rfind("part 1 of 2, Prompt lengths: 4 tokens (as stored), process 1, run 2", 0), 0U)
      << told[2];
  EXPECT_TRUE(told[2].ends_with(fmt::format("| 1 of 2 | {:.2f}", 1 + predicted))) << told[2];
  // The first took 4 s instead of what was predicted.
  const double slow = (4 + 5) / (predicted + 5);
  EXPECT_EQ(told[3],
            fmt::format("part 2 of 2, Batches: warming up batch 1 | 0 of 2 | {:.2f}", slow * predicted));
  // One part alone is told as it is, and nothing is told where nobody predicts.
  told.clear();
  run_studies(context, {plan[1]});
  EXPECT_EQ(told[0], "Prompt lengths: warming up 4 tokens | 0 of 2 | -");
  told.clear();
  run_studies(context, {plan[1], plan[2]});
  EXPECT_EQ(told[0], "part 1 of 2, Prompt lengths: warming up 4 tokens | 0 of 2 | -");
}

// A run that is resumed too late: what its journal holds is a part of the result, and nothing else begins.
TEST(StudyRuns, AreTakenFromAJournalHoweverLateItIs) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder / "journal.jsonl";
  const std::vector<PlannedStudy> plan = {
      {&study_named("lengths"), lengths_of({4})},
      {&study_named("batches"), BatchedOptions{.prompts = {Tokens{1}}, .batch_sizes = {1}, .new_tokens = 4}},
      {&study_named("precisions"), PrecisionsOptions{.precisions = {"float32"}, .prompt = Tokens{1}}}};
  test::TimedScript script;
  Sessions sessions = test::timed_sessions(script, false);
  ExperimentContext context;
  context.sessions = &sessions;
  context.context_length = 64;
  context.tokenizer = test::fixture_tokenizer();
  context.sweep.clock = script.clock();
  context.sweep.repeats = 2;
  {
    Journal journal(file, "p", false);
    context.sweep.journal = &journal;
    EXPECT_EQ(run_studies(context, {plan[0], plan[1]}).rows.size(), 2U);
  }
  script.log.clear();
  Journal journal(file, "p", true);
  context.sweep.journal = &journal;
  context.sweep.deadline = script.now;
  const ExperimentResult late = run_studies(context, plan);
  EXPECT_EQ(late.rows.size(), 2U);
  EXPECT_EQ(script.log, std::vector<std::string>{});
  ASSERT_EQ(late.left_out.size(), 1U);
  EXPECT_EQ(late.left_out[0].study, "precisions");
  EXPECT_EQ(late.left_out[0].reason, kSlower);
}

TEST(SharedOptionsOfARun, ReachEachStudy) {
  SharedOptions shared;
  shared.precisions = {"nf4"};
  shared.prompts = {"one", "two"};
  shared.batch_prompts = {"three"};
  shared.new_tokens = 15;
  const auto shared_with = [&](const char* name) {
    std::any options = study_named(name).defaults;
    study_named(name).share(shared, options);
    return options;
  };
  EXPECT_EQ(std::any_cast<LengthsOptions>(shared_with("lengths")).new_tokens, 15);
  EXPECT_EQ(std::any_cast<AblationOptions>(shared_with("ablation")).new_tokens, 15);
  EXPECT_EQ(std::any_cast<EdgeOptions>(shared_with("edge")).new_tokens, 15);
  EXPECT_EQ(std::any_cast<BatchedOptions>(shared_with("batches")).new_tokens, 15);
  EXPECT_EQ(std::any_cast<BatchedOptions>(shared_with("batches")).prompts, std::vector<Prompt>{"three"});
  EXPECT_EQ(std::any_cast<TradeoffOptions>(shared_with("trade-off")).prompts,
            (std::vector<Prompt>{"one", "two"}));
  EXPECT_EQ(std::any_cast<TradeoffOptions>(shared_with("trade-off")).new_tokens, 15);
  EXPECT_EQ(std::any_cast<TradeoffOptions>(shared_with("trade-off")).precisions,
            std::vector<std::string>{"nf4"});
  EXPECT_EQ(std::any_cast<PerplexityOptions>(shared_with("perplexity")).precisions,
            std::vector<std::string>{"nf4"});
  shared.new_tokens = 17;
  EXPECT_EQ(std::any_cast<EdgeOptions>(shared_with("edge")).new_tokens, 16) << "along an axis";
}

TEST_F(ScriptedStudies, SuiteCasesAreOfTheFirstPrecision) {
  SuiteOptions options;
  options.precisions = {"nf4", "float32"};
  options.prompts = {"one"};
  options.new_tokens = 4;
  options.skipped = {"noise",      "lengths",    "ablation", "batches", "batched-precisions",
                     "perplexity", "divergence", "edge"};
  const std::vector<Case> cases = suite_cases(context(), options);
  ASSERT_EQ(cases.size(), 3U);
  EXPECT_EQ(cases[0].configuration.label(), "nf4") << "the baseline";
  EXPECT_EQ(cases[1].label, "nf4");
  EXPECT_EQ(cases[2].label, "float32");
  take({});
  const ResultSet results = run_quantization_exercise(context(), options);
  EXPECT_EQ(results.rows.size(), 3U);
  EXPECT_EQ(results.rows[0].parameter("configuration"), "nf4");
  EXPECT_EQ(results.created.size(), 20U);
  EXPECT_EQ(results.configuration.front(), (std::pair<std::string, std::string>("seed", "1")));
  EXPECT_FALSE(results.machine.cpu.empty());
  EXPECT_FALSE(results.build.version.empty());
}

TEST(DescribeSteps, KeepsFitsThatExplainHalfOfTheVariance) {
  const auto sentences = [](double noise) {
    StepTimes on, off;
    for (int i = 0; i < 40; ++i) {
      const double at = i, wild = i % 4 == 0 || i % 4 == 3 ? noise : -noise;
      on.position.push_back(at);
      on.milliseconds.push_back(10 + at / 39 + wild);
      off.position.push_back(at);
      off.milliseconds.push_back(10);
    }
    return step_sentences(on, off);
  };
  // The line explains a variance of 0.0876: of that and noise^2, 0.53 and 0.47.
  const auto quiet = sentences(0.28), loud = sentences(0.32);
  ASSERT_FALSE(quiet.empty());
  EXPECT_EQ(quiet[0].rfind("With the KV cache, a decode step takes ", 0), 0U);
  for (const std::string& sentence : loud) EXPECT_EQ(sentence.find("With the KV cache"), std::string::npos);
}

TEST(DescribeSteps, LinesThatNeverMeetDoNotCross) {
  StepTimes on, off;
  for (double at = 1; at <= 10; ++at) {
    on.position.push_back(at);
    off.position.push_back(at);
    on.milliseconds.push_back(2 + 0.5 * at);
    off.milliseconds.push_back(1 + 0.5 * at);
  }
  EXPECT_EQ(step_sentences(on, off).size(), 4U) << "as steep";
  for (double& ms : on.milliseconds) ms = 2;  // a line too, and the other rises above it
  EXPECT_EQ(step_sentences(off, on).size(), 4U) << "where the cache makes steps slower nothing is said";
}

TEST_F(ScriptedStudies, KvCacheWithoutStepsTellsMemoryAlone) {
  script_.run = [](const Case&, int) { return test::scripted_sample(1, {}); };
  const auto first = script_.first_run;
  script_.first_run = [first](const Case& spec) {
    FirstRun made = first(spec);
    made.kv_cache_bytes = spec.label == "float32" ? 1000 : spec.label == "int8" ? 260 : 500;
    return made;
  };
  const Study& study = study_named("kv-cache");
  ExperimentResult result = study.run(context(), study.defaults);
  EXPECT_EQ(test::remarks_of(result),
            (std::vector<std::string>{"Keys and values in bfloat16 take 0.50 times the memory of float32.",
                                      "Keys and values in int8 take 0.26 times the memory of float32."}));
  script_.run = [](const Case& spec, int) -> Sample {
    if (spec.label == "bfloat16") throw Error("it fails");
    return test::scripted_sample(1, {0.5, 0.5});
  };
  result = study.run(context(), study.defaults);
  ASSERT_EQ(test::remarks_of(result).size(), 1U);
  const Comparison* step = result.comparison(Scenario::kv_cache, "int8", "float32", "step_latency_ms");
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->margin, 0.02);
  EXPECT_EQ(result.comparison(Scenario::kv_cache, "bfloat16", "float32", "step_latency_ms"), nullptr);
  script_.run = [](const Case& spec, int) -> Sample {
    if (spec.label == "float32") throw Error("it fails");
    return test::scripted_sample(1, {0.5, 0.5});
  };
  EXPECT_TRUE(study.run(context(), study.defaults).findings.empty());
}

TEST_F(ScriptedStudies, EdgePromptsKeepTheirTextsAndNameThePhase) {
  script_.first_run = [](const Case& spec) {
    FirstRun first;
    first.texts = {"text of " + spec.label};
    first.ids = {{1, 2}};
    first.prompt_ids = {{3}};
    return first;
  };
  const auto remarks = [&](double prefill, double decode, double sampling) {
    script_.run = [=](const Case& spec, int process) -> Sample {
      if (spec.label == "digits") throw Error("it fails");
      Sample s = test::scripted_sample(1, {1}, 20);
      s.sampling_s = 0.5;
      if (spec.label != "code") return s;
      s = test::scripted_sample(1 + prefill, {1 + decode}, 7);
      s.sampling_s = 0.5 + sampling;
      s.total_latency_s *= std::exp(kDeviation[process % 3]);
      return s;
    };
    const ExperimentResult result =
        run("edge", [](std::any& o) { std::any_cast<EdgeOptions&>(o).new_tokens = 2; });
    EXPECT_EQ(result.texts.size(), 8U) << "of nine, one failed";
    EXPECT_EQ(result.texts[0].label, "edge prompt: typical");
    EXPECT_EQ(result.texts[0].prompt, "");
    EXPECT_EQ(result.texts[0].text, "text of typical");
    EXPECT_EQ(result.texts[0].ids, (std::vector<int>{1, 2}));
    EXPECT_TRUE(result.texts[0].prompt_ids.empty());
    return test::remarks_of(result).empty()
               ? std::string()
               : test::remarks_of(result)[0].substr(test::remarks_of(result)[0].rfind(": ") + 2);
  };
  EXPECT_EQ(remarks(3, 0.5, 0.5), "prefill explains 75 % of the difference (prompts of 7 and 20 tokens).");
  EXPECT_EQ(remarks(0.25, 0.75, 0), "decode explains 75 % of the difference (prompts of 7 and 20 tokens).");
  EXPECT_EQ(remarks(1, 0, 3), "sampling explains 75 % of the difference (prompts of 7 and 20 tokens).");
  EXPECT_EQ(remarks(-0.75, -0.25, 0),
            "prefill explains 75 % of the difference (prompts of 7 and 20 tokens).");
  EXPECT_EQ(remarks(1, 1, -2), "sampling explains 0 % of the difference (prompts of 7 and 20 tokens).");
}

TEST_F(ScriptedStudies, ThreadsAreTheFewestOfThoseThatTie) {
  take({{"1 thread", {1, 0}}, {"2 threads", {0.5, 1}}, {"4 threads", {0.499, 1.1}}});
  const ExperimentResult result = run("threads", [](std::any& o) {
    auto& options = std::any_cast<ThreadsOptions&>(o);
    options.threads = {1, 2, 4};
    options.prompt = Tokens{1};
  });
  const Comparison* c = result.comparison(Scenario::threads, "2 threads", "1 thread");
  ASSERT_NE(c, nullptr);
  ASSERT_EQ(test::remarks_of(result).size(), 1U);
  EXPECT_EQ(test::remarks_of(result)[0],
            fmt::format(
                "Use 2 threads: no larger number is shown to be faster, 2.00x [{:.2f}, {:.2f}] faster than 1 "
                "thread.",
                1 / c->interval->high, 1 / c->interval->low));
}

TEST_F(ScriptedStudies, SeriesOfStepsHaveTheirMedians) {
  script_.run = [](const Case& spec, int) {
    const auto tokens = static_cast<std::int64_t>(std::get<Tokens>(spec.prompts[0]).size());
    return test::scripted_sample(1, {0.001, 0.002, 0.009}, tokens);
  };
  const ExperimentResult result = run("cache", [](std::any& o) {
    auto& options = std::any_cast<AblationOptions&>(o);
    options.lengths = {4, 5, 30};
    options.new_tokens = 4;
  });
  for (const char* label : {"cache on", "cache off"}) {
    const Row* row = result.find(label);
    ASSERT_NE(row, nullptr) << label;
    EXPECT_EQ(row->find("position")->value, 7) << "of 5 to 8 and 31 to 33";
    EXPECT_DOUBLE_EQ(row->find("step_latency_ms")->value, 2);
    EXPECT_EQ(row->find("step_latency_ms")->statistic, "median");
  }
}

TEST_F(ScriptedStudies, AblationAuditsItsPaddedPrompts) {
  std::vector<std::string> asked;
  script_.audit = [&](const std::vector<Prompt>& prompts, std::int64_t new_tokens) {
    asked.push_back(fmt::format("{} prompts, {} tokens", prompts.size(), new_tokens));
    AuditRow row;
    row.what = "cache off";
    return std::vector<AuditRow>{row};
  };
  take({});
  const auto audited = [&](const char* study, std::int64_t new_tokens) {
    asked.clear();
    const ExperimentResult result = run(study, [&](std::any& o) {
      auto& options = std::any_cast<AblationOptions&>(o);
      options.new_tokens = new_tokens;
      options.lengths = {4};
      options.padded_prompts = {Tokens{1}, Tokens{1, 2}};
    });
    EXPECT_EQ(result.audit.size(), 1U);
    return asked;
  };
  EXPECT_EQ(audited("ablation", 3), std::vector<std::string>{"2 prompts, 3 tokens"});
  EXPECT_EQ(audited("cache", 16), std::vector<std::string>{"2 prompts, 16 tokens"});
  EXPECT_EQ(audited("padding", 20), std::vector<std::string>{"2 prompts, 16 tokens"});
  ExperimentContext stopped = context();
  stopped.sweep.should_stop = [] { return true; };
  asked.clear();
  EXPECT_TRUE(
      study_named("cache").run(stopped, AblationOptions{.lengths = {4}, .new_tokens = 3}).audit.empty());
  EXPECT_TRUE(asked.empty());
  // With room for them, the prompts that ship have their whole lengths.
  ExperimentContext wide = context();
  wide.context_length = 200;
  std::vector<std::size_t> lengths;
  const std::vector<Case> padded = study_named("padding").cases(wide, AblationOptions{});
  for (const Prompt& prompt : padded[0].prompts) lengths.push_back(std::get<Tokens>(prompt).size());
  EXPECT_EQ(lengths, (std::vector<std::size_t>{8, 24, 48, 96}));
  wide.context_length = 8;
  EXPECT_EQ(
      std::get<Tokens>(study_named("padding").cases(wide, AblationOptions{.new_tokens = 7})[0].prompts[0])
          .size(),
      1U);
}

TEST_F(ScriptedStudies, LengthsCountWhatIsTooFew) {
  take({{"2 tokens", {1, 0}}, {"4 tokens", {1.5, 0.3}}, {"8 tokens", {1.5 * 1.02, 0.3}}});
  ExperimentContext made = context();
  made.margin = 0.05;
  const auto remark = [&](const ExperimentContext& with) {
    return test::remarks_of(study_named("lengths").run(with, lengths_of({2, 4, 8}))).at(0);
  };
  EXPECT_EQ(
      remark(made),
      "From one prompt length to the next, latency rises in 1, stays within 5 % in 1 of 2 comparisons.");
  made.margin = 0.6;
  EXPECT_EQ(remark(made),
            "From one prompt length to the next, latency stays within 60 % in 2 of 2 comparisons.");
  made.sweep.processes = 2;
  EXPECT_EQ(remark(made),
            "From one prompt length to the next, latency has too few processes for a verdict in 2 of 2 "
            "comparisons.");
}

TEST_F(ScriptedStudies, RunCasesKeepsTheOrderAndComparesWithTheFirst) {
  take({{"a", {1, 0}}, {"b", {2, 1}}, {"c", {3, 1}}});
  std::vector<Case> cases;
  for (const char* label : {"a", "b", "c"})
    cases.push_back(baseline_case(context(), Scenario::lengths, label, {Tokens{1}}, 3));
  std::size_t finished = 0;
  const Finish finish = [&](std::vector<CaseOutcome>& outcomes, ExperimentResult& result) {
    finished = outcomes.size();
    EXPECT_FALSE(outcomes[0].comparison);
    result.findings.emplace_back(StatedFinding{"a remark"});
    Row row;
    row.label = "more";
    result.rows.push_back(row);
  };
  ExperimentResult result = run_cases(context(), "s", cases, ComparedWith::first_case, finish);
  EXPECT_EQ(finished, 3U);
  ASSERT_EQ(result.rows.size(), 4U);
  EXPECT_EQ(result.rows[2].label, "c");
  EXPECT_EQ(result.rows[3].label, "more");
  ASSERT_EQ(result.comparisons.size(), 2U);
  EXPECT_EQ(result.comparisons[1].subject, "c");
  EXPECT_EQ(result.comparisons[1].baseline, "a");
  EXPECT_EQ(test::remarks_of(result), std::vector<std::string>{"a remark"});
  EXPECT_FALSE(result.is_interrupted);
  result = run_cases(context(), "s", cases, ComparedWith::nothing,
                     [](std::vector<CaseOutcome>&, ExperimentResult&) {});
  EXPECT_TRUE(result.comparisons.empty());
  ExperimentContext stopped = context();
  stopped.sweep.should_stop = [] { return true; };
  result =
      run_cases(stopped, "s", cases, ComparedWith::first_case,
                [](std::vector<CaseOutcome>&, ExperimentResult& all) { EXPECT_TRUE(all.is_interrupted); });
  EXPECT_TRUE(result.is_interrupted);
  EXPECT_TRUE(result.rows.empty());
}

}  // namespace
}  // namespace assay

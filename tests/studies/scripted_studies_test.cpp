// Each study on a scripted model: its figures by hand, and its sentences in their true, reversed and
// undecidable form.
#include <gtest/gtest.h>

#include <cmath>

#include "assay/base/error.h"
#include "assay/studies/registry.h"
#include "assay/studies/suite_plan.h"
#include "support/prose.h"
#include "support/scripted_model.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

using test::kDeviation;
using test::ScriptedStudies;

TEST_F(ScriptedStudies, BaselineRunsEachPromptAsItIsAsked) {
  const Study& study = study_named("baseline");
  std::any options = study.defaults;
  SharedOptions shared;
  shared.prompts = {"one", "two"};
  shared.new_tokens = 4;
  shared.uses_cache = false;
  shared.truncation = Truncation::right;
  study.share(shared, options);
  const std::vector<Case> cases = study.cases(context(), options);
  ASSERT_EQ(cases.size(), 2U);
  EXPECT_EQ(cases[1].label, "prompt 2");
  EXPECT_EQ(std::get<std::string>(cases[1].prompts[0]), "two");
  EXPECT_EQ(cases[1].new_tokens, 4);
  EXPECT_FALSE(cases[1].uses_cache);
  EXPECT_EQ(cases[1].truncation, Truncation::right);
}

TEST_F(ScriptedStudies, BatchesNameOnlyWhatIsAgainstExpectation) {
  const auto remarks = [&](Time four) {
    take({{"batch 1", {1, 0}}, {"batch 4", four}});
    return test::remarks_of(run("batches", [](std::any& o) {
      auto& options = std::any_cast<BatchedOptions&>(o);
      options.prompts = std::vector<Prompt>(4, std::vector<TokenId>{1, 2});
      options.batch_sizes = {1, 4};
    }));
  };
  EXPECT_TRUE(remarks({0.5, 1}).empty());
  EXPECT_TRUE(remarks({1.02, 9}).empty()) << "undecided";
  const std::vector<std::string> slower = remarks({1.5, 1});
  ASSERT_EQ(slower.size(), 1U);
  EXPECT_EQ(slower[0].rfind("The same prompts take longer in a larger batch: batch 4 is 1.50x [", 0), 0U)
      << slower[0];
}

TEST_F(ScriptedStudies, LengthsCountTheirVerdicts) {
  // Each against the one before: 1.5, 1.005, 1.05 (undecided), and 0.5.
  take({{"2 tokens", {1, 0}},
        {"4 tokens", {1.5, 0.3}},
        {"8 tokens", {1.5 * 1.005, 0.3}},
        {"16 tokens", {1.6, 12}},
        {"32 tokens", {0.8, 12.3}}});
  const auto lengths = [&](std::vector<std::int64_t> asked) {
    return run("lengths", [&](std::any& o) {
      auto& options = std::any_cast<LengthsOptions&>(o);
      options.lengths = asked;
      options.new_tokens = 4;
    });
  };
  const ExperimentResult result = lengths({32, 2, 8, 4, 16});
  ASSERT_EQ(result.other_comparisons.size(), 4U);
  EXPECT_EQ(result.other_comparisons[0].subject, "4 tokens");
  EXPECT_EQ(result.other_comparisons[0].baseline, "2 tokens");
  EXPECT_NEAR(result.other_comparisons[0].ratio, 1.5, 1e-9);
  EXPECT_NEAR(result.other_comparisons[3].ratio, 0.5, 1e-9);
  ASSERT_EQ(test::remarks_of(result).size(), 2U);
  EXPECT_EQ(
      test::remarks_of(result)[0],
      "From one prompt length to the next, latency rises in 1, stays within 2 % in 1, is undecided in 1, "
      "falls in 1 of 4 comparisons.");
  EXPECT_EQ(test::remarks_of(result)[1].rfind(
                "A longer prompt takes less time than a shorter one: 32 tokens is 2.000x [", 0),
            0U)
      << test::remarks_of(result)[1];
  const ExperimentResult rising = lengths({2, 4});
  ASSERT_EQ(test::remarks_of(rising).size(), 1U);
  EXPECT_EQ(test::remarks_of(rising)[0],
            "From one prompt length to the next, latency rises in 1 of 1 comparisons.");
  EXPECT_TRUE(lengths({2}).findings.empty());
  // 0 is the longest, and what exceeds it is cut to it.
  const std::vector<Case> cases = study_named("lengths").cases(
      context(), LengthsOptions{.lengths = {0, 70}, .new_tokens = 4, .uses_cache = false});
  EXPECT_EQ(cases[0].label, "60 tokens");
  EXPECT_FALSE(cases[0].uses_cache);
  EXPECT_TRUE(cases[0].warnings.empty());
  EXPECT_EQ(cases[1].warnings[0].text,
            "70 prompt tokens were asked for, but 60 and 4 new tokens fill the context of 64");
  EXPECT_EQ(study_named("lengths").cases(context(), LengthsOptions{.lengths = {1}, .new_tokens = 63}).size(),
            1U);
}

TEST_F(ScriptedStudies, ThreadsAreRecommendedByTests) {
  const auto remark = [&](double two, double four) {
    take({{"1 thread", {1, 0}}, {"2 threads", {two, 1}}, {"4 threads", {four, 1.1}}});
    const ExperimentResult result = run("threads", [](std::any& o) {
      auto& options = std::any_cast<ThreadsOptions&>(o);
      options.threads = {4, 1, 2};
      options.prompt = std::vector<TokenId>{1};
    });
    return test::remarks_of(result).empty() ? std::string() : test::remarks_of(result).front();
  };
  EXPECT_EQ(remark(0.5, 0.25).rfind("Use 4 threads: this number is the fastest, 4.00x [", 0), 0U)
      << remark(0.5, 0.25);
  // Equal: the smaller number.
  EXPECT_EQ(remark(0.5, 0.5).rfind("Use 2 threads: no larger number is shown to be faster, 2.00x [", 0), 0U)
      << remark(0.5, 0.5);
  EXPECT_NE(remark(0.5, 0.5).find("] faster than 1 thread."), std::string::npos);
  EXPECT_EQ(remark(1.5, 2), "Use 1 thread: this number is the fastest.");
  EXPECT_EQ(remark(1, 1), "Use 1 thread: no larger number is shown to be faster.");
}

TEST_F(ScriptedStudies, ThreadsWarnBeyondTheProcessors) {
  const auto allowed = static_cast<std::int64_t>(allowed_processors().size());
  const std::vector<Case> cases =
      study_named("threads").cases(context(), ThreadsOptions{.threads = {allowed + 1, allowed}});
  EXPECT_TRUE(cases[0].warnings.empty());
  EXPECT_EQ(cases[1].warnings.size(), 1U);
  EXPECT_EQ(cases[1].configuration.threads, static_cast<int>(allowed + 1));
  EXPECT_THROW(study_named("threads").cases(context(), ThreadsOptions{.threads = {0}}), FieldError);
  EXPECT_THROW(study_named("threads").cases(context(), ThreadsOptions{.threads = {1025}}), FieldError);
  EXPECT_EQ(study_named("threads").cases(context(), ThreadsOptions{.threads = {1024}}).size(), 1U);
  const std::vector<Case> usual = study_named("threads").cases(context(), ThreadsOptions{});
  EXPECT_EQ(usual.front().label, "1 thread");
  EXPECT_EQ(usual.back().configuration.threads, static_cast<int>(allowed));
}

TEST_F(ScriptedStudies, KvCacheFormatsTellMemoryAndSteps) {
  script_.run = [](const Case& spec, int process) {
    const double own = spec.label == "int8" ? 1.25 * std::exp(kDeviation[process]) : 1;
    return test::scripted_sample(1, {0.1, 0.1 * own, 0.9});  // the median of the steps
  };
  const auto first = script_.first_run;
  script_.first_run = [first](const Case& spec) {
    FirstRun made = first(spec);
    made.kv_cache_bytes = spec.label == "int8" ? 260 : 1000;
    return made;
  };
  const ExperimentResult result = run("kv-cache", [](std::any& o) {
    std::any& options = o;
    for (const StudyOption& option : study_named("kv-cache").options)
      if (option.name == "kv-cache") option.set(options, std::vector<std::string>{"float32", "int8"});
  });
  ASSERT_EQ(test::remarks_of(result).size(), 1U);
  EXPECT_EQ(test::remarks_of(result)[0].rfind(
                "Keys and values in int8 take 0.26 times the memory of float32. Decode "
                "steps: int8 is 1.25x [",
                0),
            0U)
      << test::remarks_of(result)[0];
  const Comparison* step = result.comparison(Scenario::kv_cache, "int8", "float32", "step_latency_ms");
  ASSERT_NE(step, nullptr);
  EXPECT_NEAR(step->ratio, 1.25, 1e-9);
}

TEST_F(ScriptedStudies, EdgePromptsExplainTheirDifference) {
  int of_code = 0;
  script_.run = [&](const Case& spec, int process) {
    Sample s = test::scripted_sample(1, {1, 1}, 20);
    s.sampling_s = 0.5;
    if (spec.label == "code") {
      s = test::scripted_sample(1.25, {2, 2}, 40);  // 0.25 more of prefill, 2 of decode, 0.25 of sampling
      s.sampling_s = 0.75;
      if (++of_code == 5) s.step_s = {2, 90};  // one run in nine, whose total the test leaves alone
      s.total_latency_s *= std::exp(kDeviation[process]);
    }
    if (spec.label == "digits") s.total_latency_s *= std::exp(9 * kDeviation[process]);
    return s;
  };
  const ExperimentResult result =
      run("edge", [](std::any& o) { std::any_cast<EdgeOptions&>(o).new_tokens = 3; });
  ASSERT_EQ(test::remarks_of(result).size(), 1U) << "equal and undecided ones are not explained";
  EXPECT_EQ(test::remarks_of(result)[0].rfind("code is 1.75x [", 0), 0U) << test::remarks_of(result)[0];
  // 2 of 2.5.
  EXPECT_NE(test::remarks_of(result)[0].find(
                ": decode explains 80 % of the difference (prompts of 40 and 20 tokens)."),
            std::string::npos)
      << test::remarks_of(result)[0];
  EXPECT_NEAR(result.find("code")->find("time_ratio")->value, 5.25 / 3, 1e-9);
  EXPECT_EQ(result.find("typical")->find("time_ratio"), nullptr);
}

TEST_F(ScriptedStudies, TheNoiseIsThatOfEqualProcesses) {
  script_.run = [](const Case& spec, int process) {
    const double own = spec.configuration.replica == 1 ? std::exp(0.03 + 2 * kDeviation[process % 3]) : 1;
    return test::scripted_sample(own, {});
  };
  const auto noise = measure_noise(context(), 20);
  ASSERT_TRUE(noise);
  EXPECT_EQ(noise->processes, 3);
  EXPECT_EQ(noise->rounds, 3);
  EXPECT_NEAR(noise->bias, std::expm1(0.03), 1e-12);
  EXPECT_NEAR(noise->between, 0.02 / std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(noise->within, 0, 1e-12);
  NoiseEstimate shown{.between = 0.011,
                      .within = 0.022,
                      .bias = -0.013,
                      .processes = 10,
                      .rounds = 3,
                      .detectable_difference = 0.044};
  EXPECT_EQ(
      describe_noise(shown, {}),
      "A/A run: equal configurations in 10 processes differ by -1.3 %. The standard deviation is "
      "1.1 % between processes and 2.2 % between runs of a process. With a power of 90 %, one comparison of "
      "as many processes detects a difference of 4.4 %.");
  std::vector<Comparison> comparisons(4);
  const double detectable[] = {0.01, 0.02, 0.06, 0.5};
  for (std::size_t i = 0; i < 4; ++i) {
    comparisons[i].metric = i == 3 ? "perplexity" : "total_latency_s";
    comparisons[i].detectable_difference = detectable[i];
  }
  comparisons.emplace_back().metric = "total_latency_s";  // not tested
  EXPECT_NE(describe_noise(shown, comparisons)
                .find("; the median comparison of this run, corrected for multiplicity, detects 2.0 %."),
            std::string::npos)
      << describe_noise(shown, comparisons);
  const Study& study = study_named("noise");
  EXPECT_TRUE(study.applies(context(), NoiseOptions{}));
  EXPECT_FALSE(study.applies(context(), NoiseOptions{.pairs = 0}));
  ExperimentContext few = context();
  few.sweep.processes = 2;
  EXPECT_FALSE(study.applies(few, NoiseOptions{}));
  // Pairs are spread over ten processes.
  const auto predicted = [&](std::int64_t pairs) {
    ExperimentContext free = context();
    free.sweep.repeats.reset();
    return study.predict_s(free, NoiseOptions{.pairs = pairs}, [](const Case&) { return 0.08; });
  };
  // Two sessions start in 0.3 s; a round takes 0.2 s: warming up costs two.
  EXPECT_NEAR(predicted(20), 3 * (0.3 + 5 * 0.2), 1e-9);
  EXPECT_NEAR(predicted(31), 3 * (0.3 + 6 * 0.2), 1e-9);
}

TEST_F(ScriptedStudies, PerplexityIsTheExponentOfTheMeanLoss) {
  const test::TemporaryFolder folder;
  test::write_file(folder.path() / "text.txt", "a text");
  // Six blocks of 512 tokens, whose losses are 1.8, 2.2, ...; nf4 loses 0.1 more in each, and 0.02 more or
  // less from one block of 64 to the next.
  double more = 0.1, wide = 0.02;
  script_.score = [&](const RunConfig& configuration) {
    CorpusLosses losses;
    losses.corpus_sha256 = "sha";
    losses.protocol = "guide";
    for (int i = 0; i < 6 * 512; ++i) {
      const double base = i / 512 % 2 == 0 ? 1.8 : 2.2;
      const double own = configuration.label() == "nf4" ? more + (i / 64 % 2 == 0 ? wide : -wide) : 0;
      losses.log_probabilities.push_back(-(base + own));
    }
    losses.tokens = 6 * 512 + 1;
    return losses;
  };
  const auto scored = [&] {
    return compare_perplexity(context(),
                              {.precisions = {"float32", "nf4"}, .corpus = folder.path() / "text.txt"});
  };
  const ExperimentResult result = scored();
  ASSERT_EQ(result.rows.size(), 2U);
  const Row &base = result.rows[0], &nf4 = result.rows[1];
  EXPECT_NEAR(base.find("loss")->value, 2, 1e-12);
  EXPECT_NEAR(base.find("perplexity")->value, std::exp(2), 1e-12);
  // Blocks deviate by 0.2 sqrt(6/5); t of 5 degrees is 2.570582.
  const double half = 2.570581836 * 0.2 * std::sqrt(6 / 5.0) / std::sqrt(6.0);
  EXPECT_NEAR(base.find("perplexity")->interval->low, std::exp(2 - half), 1e-7);
  EXPECT_NEAR(base.find("perplexity")->interval->high, std::exp(2 + half), 1e-7);
  EXPECT_NEAR(base.find("loss")->interval->low, 2 - half, 1e-8);
  EXPECT_EQ(base.find("tokens_scored")->value, 6 * 512);
  EXPECT_EQ(base.find("perplexity_ratio"), nullptr);
  EXPECT_NEAR(nf4.find("perplexity")->value, std::exp(2.1), 1e-12);
  // 48 blocks that deviate by 0.02 sqrt(48/47); t of 47 degrees is 2.011741.
  const double narrow = 2.011740514 * 0.02 / std::sqrt(47.0);
  const Value& ratio = *nf4.find("perplexity_ratio");
  EXPECT_NEAR(ratio.value, std::exp(0.1), 1e-12);
  EXPECT_NEAR(ratio.interval->low, std::exp(0.1 - narrow), 1e-7);
  EXPECT_NEAR(ratio.interval->high, std::exp(0.1 + narrow), 1e-7);
  ASSERT_EQ(result.comparisons.size(), 1U);
  EXPECT_EQ(result.comparisons[0].verdict, Verdict::higher);
  EXPECT_EQ(result.comparisons[0].margin, 0.005);
  EXPECT_EQ(result.comparisons[0].processes, 48);
  EXPECT_EQ(sentence_of(result.comparisons[0]),
            "nf4 has a higher perplexity than float32: perplexity ratio 1.105 [1.099, 1.112]");
  EXPECT_EQ(nf4.parameter("corpus"), "text.txt");
  EXPECT_EQ(nf4.parameter("corpus_sha256"), "sha");
  EXPECT_EQ(nf4.parameter("protocol"), "guide");
  EXPECT_EQ(nf4.losses->tokens, 6 * 512);
  EXPECT_NEAR(nf4.losses->sums[0], 16 * 1.92, 1e-9);
  EXPECT_TRUE(warnings_of_kind(nf4, WarningKind::perplexity_rise).empty());
  more = 0;
  wide = 0.001;
  EXPECT_EQ(scored().comparisons[0].verdict, Verdict::no_difference);
  wide = 0.2;
  EXPECT_EQ(scored().comparisons[0].verdict, Verdict::cannot_tell);
  more = std::log(1.49);
  EXPECT_TRUE(warnings_of_kind(scored().rows[1], WarningKind::perplexity_rise).empty());
  more = std::log(1.51);
  EXPECT_EQ(warnings_of_kind(scored().rows[1], WarningKind::perplexity_rise),
            std::vector<std::string>{"the perplexity is 1.51 times that of float32"});
}

// Every eighth token costs 8, the others 1: perplexity is of the mean, 1.875, not of what most tokens cost.
TEST_F(ScriptedStudies, PerplexityCountsRareTokensByTheirLoss) {
  const test::TemporaryFolder folder;
  test::write_file(folder.path() / "text.txt", "a text");
  script_.score = [&](const RunConfig&) {
    CorpusLosses losses;
    for (int i = 0; i < 6 * 512; ++i) losses.log_probabilities.push_back(i % 8 == 0 ? -8 : -1);
    losses.tokens = 6 * 512 + 1;
    return losses;
  };
  const ExperimentResult result =
      compare_perplexity(context(), {.precisions = {"float32"}, .corpus = folder.path() / "text.txt"});
  EXPECT_NEAR(result.rows[0].find("loss")->value, 1.875, 1e-12);
  EXPECT_NEAR(result.rows[0].find("perplexity")->value, std::exp(1.875), 1e-12);
}

TEST_F(ScriptedStudies, PredictedTimesCountRunsAndStarts) {
  const auto seconds_of = [](const Case& spec) {
    return spec.configuration.label() == "float32" ? 1.0 : 3.0;
  };
  const ExperimentContext made = context();
  // A round of 1.02 + 3.02 s, two of them to warm up and three to measure, in three processes that start
  // twice.
  const double sweep = 3 * (2 * 0.15 + 5 * 4.04);
  TradeoffOptions options;
  options.precisions = {"float32", "nf4"};
  options.prompts = {std::vector<TokenId>{1}, std::vector<TokenId>{2}, std::vector<TokenId>{3}};
  // The texts of the two other prompts: 2 * (1 + 3).
  EXPECT_NEAR(study_named("trade-off").predict_s(made, options, seconds_of), sweep + 8, 1e-9);
  const PrecisionsOptions precisions{.precisions = {"float32", "nf4"}, .prompt = std::vector<TokenId>{1}};
  EXPECT_NEAR(study_named("precisions").predict_s(made, precisions, seconds_of), sweep, 1e-9);
  const test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "word ";
  test::write_file(folder.path() / "text.txt", text);
  const auto tokens = static_cast<std::int64_t>(made.tokenizer->encode(text).size());
  std::vector<std::int64_t> lengths;
  const auto remember = [&](const Case& spec) {
    lengths.push_back(static_cast<std::int64_t>(std::get<std::vector<TokenId>>(spec.prompts[0]).size()));
    return 0.5;
  };
  const PerplexityOptions perplexity{.precisions = {"float32"}, .corpus = folder.path() / "text.txt"};
  ASSERT_GT(tokens, 64);
  // All windows but the last are whole, and the last ends with the text.
  const auto inputs = [&](std::int64_t window, std::int64_t stride) {
    const std::int64_t whole = (tokens - window + stride - 1) / stride;
    return static_cast<double>(whole * window + tokens - whole * stride);
  };
  // Half a window of 64 at a time.
  EXPECT_NEAR(study_named("perplexity").predict_s(made, perplexity, remember), 0.5 * inputs(64, 32) / 63,
              1e-9);
  EXPECT_EQ(lengths.back(), std::min<std::int64_t>(63, tokens));
  EXPECT_NEAR(study_named("perplexity")
                  .predict_s(made,
                             PerplexityOptions{.precisions = {"float32"},
                                               .corpus = folder.path() / "text.txt",
                                               .context = 10,
                                               .stride = 7},
                             remember),
              0.5 * inputs(10, 7) / 10, 1e-9);
  EXPECT_EQ(lengths.back(), 10);
}

TEST_F(ScriptedStudies, CaptionsNameHowItWasMeasured) {
  take({});
  ExperimentContext made = context();
  made.sessions->of(made.baseline);
  ResultSet results = results_of(made, {});
  EXPECT_NE(results.caption.find("in 3 fresh processes and warmed up; its cases then run in 3 rounds in "
                                 "random order"),
            std::string::npos)
      << results.caption;
  made.sweep.processes.reset();
  made.sweep.repeats.reset();
  results = results_of(made, {});
  EXPECT_NE(
      results.caption.find(
          "in one fresh process or several and warmed up; its cases then run in rounds in random order"),
      std::string::npos)
      << results.caption;
  EXPECT_EQ(results.run_id.size(), 16U);
}

}  // namespace
}  // namespace assay

// The table of studies: what every study must be, and how a run is made of them.
#include "assay/studies/registry.h"

#include <gtest/gtest.h>

#include <set>

#include "assay/base/error.h"
#include "assay/studies/suite.h"
#include "assay/studies/suite_plan.h"
#include "assay/text/tokenizer.h"
#include "support/fake_session.h"
#include "support/fixtures.h"
#include "support/prose.h"

namespace assay {
namespace {

OptionValue value_for(const StudyOption& option) {
  using Kind = StudyOption::Kind;
  switch (option.kind) {
    case Kind::flag:
      return true;
    case Kind::whole:
      return std::int64_t{3};
    case Kind::wholes:
      return std::vector<std::int64_t>{3};
    case Kind::words:
      return std::vector<std::string>{"float32"};
    case Kind::prompts:
      return std::vector<Prompt>{"a prompt"};
    case Kind::text:
      break;
  }
  return std::string("no such name");
}

TEST(Studies, AreNamedOnceAndDescribed) {
  std::set<std::string> names, titles, commands;
  for (const Study& study : studies()) {
    SCOPED_TRACE(study.name);
    EXPECT_TRUE(names.insert(study.name).second);
    EXPECT_TRUE(titles.insert(study.title).second);
    EXPECT_FALSE(study.title.empty());
    EXPECT_FALSE(study.description.empty());
    EXPECT_NE(study.description.back(), '.') << "it is shown as a phrase";
    EXPECT_EQ(study.example.rfind("assay " + study.command, 0),
              study.command.empty() ? std::string::npos : 0U);
    EXPECT_TRUE(study.command.empty() || commands.insert(study.command).second);
    EXPECT_TRUE(study.is_in_suite || !study.command.empty()) << "nothing would run it";
    for (const std::string& follower : study.followers) EXPECT_EQ(study_named(follower).name, follower);
    EXPECT_EQ(&study_named(study.name), &study);
  }
  EXPECT_THROW(study_named("nonsense"), UsageError);
}

// An option sets a field of the study's own options from a value of its kind, or refuses the value.
TEST(Studies, OptionsFitTheirFields) {
  for (const Study& study : studies()) {
    std::set<std::string> names;
    for (const StudyOption& option : study.options) {
      SCOPED_TRACE(study.name + " --" + option.name);
      EXPECT_TRUE(names.insert(option.name).second);
      EXPECT_FALSE(option.help.empty());
      std::any options = study.defaults;
      try {
        option.set(options, value_for(option));
      } catch (const UsageError& error) {
        EXPECT_EQ(option.kind, StudyOption::Kind::text) << error.what();
        EXPECT_NE(std::string(error.what()).find("no such name"), std::string::npos);
      }
    }
  }
}

TEST(StudyOption, SetsItsFieldAndShowsItsDefault) {
  struct Options {
    std::vector<std::int64_t> lengths{3, 5};
    Prompt prompt = "old";
    bool uses_cache = true;
    Padding padding = Padding::none;
  };
  std::any options = Options{};
  const auto& own = std::any_cast<const Options&>(options);
  const StudyOption lengths = option("lengths", &Options::lengths, "Lengths");
  EXPECT_EQ(lengths.help, "Lengths [3,5]");
  lengths.set(options, std::vector<std::int64_t>{7});
  EXPECT_EQ(own.lengths, std::vector<std::int64_t>{7});
  option("prompt", &Options::prompt, "Prompt").set(options, std::vector<Prompt>{"first", "second"});
  EXPECT_EQ(std::get<std::string>(own.prompt), "first");
  flag("no-cache", &Options::uses_cache, false, "No cache").set(options, true);
  EXPECT_FALSE(own.uses_cache);
  const StudyOption padding = choice("padding", &Options::padding, padding_from_name, name_of, "Padding");
  EXPECT_EQ(padding.help, "Padding [none]");
  padding.set(options, std::string("left"));
  EXPECT_EQ(own.padding, Padding::left);
  EXPECT_THROW(padding.set(options, std::string("middle")), UsageError);
}

// A front end shows its users the field under the name they know.
TEST(Studies, NameTheFieldOfAValueThatCannotBe) {
  const auto refusal = [](const char* study, const std::any& options) -> std::string {
    ExperimentContext context;
    context.context_length = 1024;
    try {
      study_named(study).cases(context, options);
    } catch (const FieldError& error) {
      return error.field() + " | " + error.problem();
    }
    return "no FieldError";
  };
  EXPECT_EQ(refusal("lengths", LengthsOptions{.lengths = {-1}}),
            "lengths | expected whole numbers from 0, found -1");
  EXPECT_EQ(refusal("ablation", AblationOptions{.lengths = {0}}),
            "lengths | expected whole numbers from 1, found 0");
  EXPECT_EQ(refusal("batches", BatchedOptions{.batch_sizes = {0}}),
            "batch_sizes | expected whole numbers from 1, found 0");
  EXPECT_EQ(refusal("threads", ThreadsOptions{.threads = {1025}}),
            "threads | expected 1 to 1024, found 1025");
  EXPECT_EQ(refusal("trade-off", TradeoffOptions{.prompts = {}}),
            "prompts | expected one prompt at least, found none");
}

// What an error calls a field is what the option that sets it says.
TEST(StudyOption, KnowsItsFieldByTheNameInErrors) {
  const auto fields_of = [](const char* study) {
    std::vector<std::string> fields;
    for (const StudyOption& option : study_named(study).options) fields.push_back(option.field());
    return fields;
  };
  EXPECT_EQ(fields_of("batches"),
            (std::vector<std::string>{"prompt", "batch_sizes", "padding", "max_new_tokens"}));
}

TEST(Studies, RefuseTheOptionsOfAnother) {
  EXPECT_THROW(study_named("lengths").cases(ExperimentContext{}, BatchedOptions{}), UsageError);
}

std::vector<std::string> names_of(const std::vector<PlannedStudy>& plan) {
  std::vector<std::string> names;
  for (const PlannedStudy& planned : plan) names.push_back(planned.study->name);
  return names;
}

TEST(SuitePlan, HoldsTheStudiesOfARunInTheirOrder) {
  SuiteOptions options;
  EXPECT_EQ(names_of(suite_plan(options)),
            (std::vector<std::string>{"baseline", "noise", "trade-off", "lengths", "ablation", "batches",
                                      "batched-precisions", "perplexity", "task", "divergence", "edge"}));
  options.skipped = {"noise", "edge", "divergence", "task"};
  EXPECT_EQ(names_of(suite_plan(options)),
            (std::vector<std::string>{"baseline", "trade-off", "lengths", "ablation", "batches",
                                      "batched-precisions", "perplexity"}));
  for (const char* name : {"baseline", "threads", "nonsense"}) {
    options.skipped = {name};
    try {
      suite_plan(options);
      ADD_FAILURE() << name;
    } catch (const FieldError& error) {
      EXPECT_EQ(error.field(), "skipped");
      EXPECT_NE(error.problem().find("expected some of noise, "), std::string::npos) << error.problem();
      EXPECT_NE(error.problem().find(name), std::string::npos);
    }
  }
  options.skipped = {};
  options.studies["threads"] = ThreadsOptions{};
  EXPECT_THROW(suite_plan(options), UsageError) << "it is no part of a run";
}

TEST(SuitePlan, WritesWhatTheRunSharesIntoEveryStudy) {
  SuiteOptions options;
  options.precisions = {"nf4"};
  options.new_tokens = 40;
  options.prompts = {"one"};
  options.studies["lengths"] = LengthsOptions{.lengths = {7}};
  for (const auto& [study, own, has_cases, has_tokens] : suite_plan(options)) {
    if (study->name == "trade-off") {
      const auto& tradeoff = std::any_cast<const TradeoffOptions&>(own);
      EXPECT_EQ(tradeoff.precisions, options.precisions);
      EXPECT_EQ(tradeoff.new_tokens, 40);
      EXPECT_EQ(tradeoff.prompts.size(), 1U);
    } else if (study->name == "lengths") {
      const auto& lengths = std::any_cast<const LengthsOptions&>(own);
      EXPECT_EQ(lengths.lengths, std::vector<std::int64_t>{7});
      EXPECT_EQ(lengths.new_tokens, 16) << "along an axis";
    } else if (study->name == "batches") {
      EXPECT_TRUE(std::any_cast<const BatchedOptions&>(own).prompts.empty());
    } else if (study->name == "perplexity") {
      EXPECT_EQ(std::any_cast<const PerplexityOptions&>(own).precisions, options.precisions);
    }
  }
}

class SmallModel : public testing::Test {
 protected:
  SmallModel() : local_({test::fixture_model("with_tokenizer").string()}, RunConfig{}, sweep()) {}
  static SweepOptions sweep() {
    SweepOptions sweep;
    sweep.repeats = 2;
    return sweep;
  }
  LocalExperiment local_;
};

TEST_F(SmallModel, StudiesThatWouldDoNothingAreLeftOut) {
  const std::vector<PlannedStudy> plan = {{&study_named("noise"), NoiseOptions{}},
                                          {&study_named("lengths"), LengthsOptions{.lengths = {4, 8}}}};
  // Everything runs in one process, of which an A/A run would learn nothing.
  const std::vector<Case> cases = cases_of(local_, {{plan[0]}});
  EXPECT_TRUE(cases.empty());
  EXPECT_EQ(cases_of(local_, plan).size(), 2U);
}

TEST_F(SmallModel, RunStudiesTellsItsPartsAndStopsBetweenThem) {
  std::vector<std::string> told;
  ExperimentContext& context = local_.get();
  context.sweep.on_progress = [&](const std::string& now, std::int64_t, std::int64_t, std::optional<double>) {
    told.push_back(now);
  };
  LengthsOptions lengths{.lengths = {4}, .new_tokens = 4};
  const std::vector<PlannedStudy> plan = {
      {&study_named("lengths"), lengths},
      {&study_named("batches"), BatchedOptions{.prompts = {"a"}, .batch_sizes = {1}, .new_tokens = 4}}};
  const ExperimentResult result = run_studies(context, plan);
  ASSERT_EQ(result.rows.size(), 2U);
  EXPECT_EQ(result.rows[0].scenario, Scenario::lengths);
  EXPECT_EQ(result.rows[1].scenario, Scenario::batches);
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.front().rfind("part 1 of 2, Prompt lengths: ", 0), 0U) << told.front();
  EXPECT_EQ(told.back().rfind("part 2 of 2, Batches: ", 0), 0U) << told.back();
  // Stopped as soon as the second part begins.
  bool stops = false;
  context.sweep.should_stop = [&] { return stops; };
  context.sweep.on_progress = [&](const std::string& now, std::int64_t, std::int64_t, std::optional<double>) {
    stops = stops || now.rfind("part 2", 0) == 0;
  };
  const ExperimentResult stopped = run_studies(context, plan);
  EXPECT_TRUE(stopped.is_interrupted);
  EXPECT_EQ(stopped.rows.size(), 1U);
}

// What a run of prompt lengths remarks when its runs take these times, with jitter from process to process.
std::vector<std::string> length_remarks(const std::vector<double>& latencies, double jitter = 0,
                                        double margin = 0.02) {
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 0; i < latencies.size(); ++i) lengths.push_back(static_cast<std::int64_t>(i) + 4);
  int made = 0;
  Sessions sessions = test::fake_processes(
      [&](const RunConfig&, const Case& spec, int own) {
        const auto ids = std::get<std::vector<TokenId>>(spec.prompts.front());
        return latencies[ids.size() - 4] *
               (1 + jitter * static_cast<double>(own * 5 * static_cast<int>(ids.size()) % 7 - 3));
      },
      &made);
  ExperimentContext context;
  context.sessions = &sessions;
  context.tokenizer =
      std::make_shared<const Tokenizer>(Tokenizer::load(test::fixture_model("with_tokenizer")));
  context.context_length = 64;
  context.sweep.processes = 5;
  context.sweep.repeats = 3;
  context.margin = margin;
  return test::remarks_of(
      run_for_varied_lengths(context, {.lengths = lengths, .base = "abc ", .new_tokens = 4}));
}

// Only what the comparisons found is said of the lengths.
TEST(PromptLengths, RemarkIsWhatTheComparisonsFound) {
  const std::string from = "From one prompt length to the next, latency ";
  EXPECT_EQ(length_remarks({0.1, 0.2, 0.3}), std::vector<std::string>{from + "rises in 2 of 2 comparisons."});
  EXPECT_EQ(length_remarks({0.1, 0.1, 0.101, 0.2}),
            std::vector<std::string>{from + "rises in 1, stays within 2 % in 2 of 3 comparisons."});
  EXPECT_EQ(length_remarks({0.1, 0.1, 0.101}, 0, 0.099),
            std::vector<std::string>{from + "stays within 9.9 % in 2 of 2 comparisons."});
  EXPECT_EQ(length_remarks({0.1, 0.105}, 0.1),
            std::vector<std::string>{from + "is undecided in 1 of 1 comparisons."});
  const std::vector<std::string> falls = length_remarks({0.1, 0.2, 0.15});
  ASSERT_EQ(falls.size(), 2U);
  EXPECT_EQ(falls[0], from + "rises in 1, falls in 1 of 2 comparisons.");
  EXPECT_EQ(falls[1].rfind("A longer prompt takes less time than a shorter one: 6 tokens is 1.33x [", 0), 0U)
      << falls[1];
}

StepTimes steps(double first, double last, double start_ms, double slope_ms, double noise_ms) {
  StepTimes times;
  int i = 0;
  for (double at = first; at <= last; ++at) {
    times.position.push_back(at);
    times.milliseconds.push_back(start_ms + slope_ms * at + noise_ms * (++i % 2 == 0 ? 1 : -1));
  }
  return times;
}

// Fits and crossings are said where the data hold them, and nowhere else.
TEST(DescribeSteps, SaysOnlyWhatThePositionsHold) {
  const auto said = [](const StepTimes& on, const StepTimes& off) {
    return fmt::format("{}", fmt::join(step_sentences(on, off), "\n"));
  };
  // The lines 2 + 0.01 x and 1 + 0.03 x cross at 50.
  const StepTimes on = steps(20, 90, 2, 0.01, 0), off = steps(20, 90, 1, 0.03, 0);
  EXPECT_EQ(step_sentences(on, off).size(), 5U);
  EXPECT_NE(said(on, off).find("With the KV cache, a decode step takes 2 ms + 10 us per position (R2 1.00)."),
            std::string::npos)
      << said(on, off);
  EXPECT_NE(said(on, off).find("cross at position 50, within the measured 20 to 90"), std::string::npos);
  // Measured from 60 on, the crossing lies below the data.
  EXPECT_EQ(said(steps(60, 90, 2, 0.01, 0), steps(60, 90, 1, 0.03, 0)).find("cross"), std::string::npos);
  // Reversed: with the cache it grows faster, so that nothing is to be gained beyond any position.
  EXPECT_EQ(said(off, on).find("cross"), std::string::npos);
  // Noise that the line does not explain is no finding.
  const std::string noisy = said(steps(20, 90, 2, 0.0001, 1), off);
  EXPECT_EQ(noisy.find("With the KV cache"), std::string::npos) << noisy;
  EXPECT_NE(noisy.find("Without the KV cache"), std::string::npos);
  EXPECT_EQ(noisy.find("cross"), std::string::npos);
}

// A failed case is a row with its reason, and is compared with nothing.
TEST_F(SmallModel, AFailedCaseIsARowOfItsStudy) {
  const ExperimentResult result = probe_edge_prompts(local_, {.new_tokens = 4, .prompts = {"a prompt", ""}});
  const Row& own = result.rows[result.rows.size() - 2];
  EXPECT_EQ(own.label, "own prompt 1");
  EXPECT_EQ(own.status, RowStatus::ok);
  EXPECT_NE(own.find("time_ratio"), nullptr);
  const Row& failed = result.rows.back();
  EXPECT_EQ(failed.label, "own prompt 2");
  EXPECT_EQ(failed.status, RowStatus::error);
  EXPECT_EQ(failed.find("time_ratio"), nullptr);
  EXPECT_EQ(result.comparisons.size(), result.rows.size() - 2);
}

}  // namespace
}  // namespace assay

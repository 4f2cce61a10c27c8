// The cases that each study makes of its options: every field, both sides of each limit.
#include <gtest/gtest.h>

#include "assay/base/error.h"
#include "assay/studies/batched_precisions.h"
#include "assay/studies/precision_cases.h"
#include "assay/studies/registry.h"
#include "assay/studies/suite_plan.h"
#include "support/prose.h"
#include "support/scripted_model.h"

namespace assay {
namespace {

using test::ScriptedStudies;
using Tokens = std::vector<TokenId>;

std::string refusal_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const FieldError& error) {
    return error.field() + ": " + error.problem();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> texts_of(const Case& spec) {
  std::vector<std::string> all;
  for (const Warning& warning : spec.warnings) all.push_back(warning.text);
  return all;
}

using Texts = std::vector<std::string>;

TEST_F(ScriptedStudies, BaselineCasesShowTheirPrompts) {
  const Study& study = study_named("baseline");
  std::any options = study.defaults;
  SharedOptions shared;
  shared.prompts = {"one", Tokens{5, 6}};
  study.share(shared, options);
  const std::vector<Case> cases = study.cases(context(), options);
  ASSERT_EQ(cases.size(), 2U);
  EXPECT_EQ(cases[0].label, "prompt 1");
  EXPECT_EQ(cases[0].scenario, Scenario::baseline);
  EXPECT_EQ(cases[0].new_tokens, 50);
  EXPECT_TRUE(cases[0].uses_cache);
  EXPECT_EQ(cases[0].truncation, Truncation::none);
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(cases[0].parameters, (Pairs{{"prompt", "one"}}));
  EXPECT_EQ(cases[1].parameters, (Pairs{{"prompt", "ids 5 6"}}));
  EXPECT_EQ(cases[1].prompts, (std::vector<Prompt>{Tokens{5, 6}}));
  script_.facts = [](const RunConfig&) {
    SessionFacts facts;
    facts.kernels = "scripted";
    facts.model.load_s = 7;
    return facts;
  };
  script_.first_run = [](const Case& spec) {
    FirstRun first;
    first.texts = {"text of " + spec.label, "no other"};
    first.ids = {{1, 2}, {9}};
    first.prompt_ids = {{3}, {8}};
    return first;
  };
  script_.run = [](const Case& spec, int) {
    if (spec.label == "prompt 1") throw Error("it fails");
    return test::scripted_sample(1, {});
  };
  const ExperimentResult result = study.run(context(), options);
  ASSERT_EQ(result.rows.size(), 2U);
  EXPECT_EQ(result.rows[0].reason, "it fails");
  EXPECT_EQ(result.rows[1].find("load_s")->value, 7);
  ASSERT_EQ(result.texts.size(), 1U) << "of what failed there is none";
  EXPECT_EQ(result.texts[0].label, "prompt 2");
  EXPECT_EQ(result.texts[0].prompt, "ids 5 6");
  EXPECT_EQ(result.texts[0].text, "text of prompt 2");
  EXPECT_EQ(result.texts[0].prompt_ids, (std::vector<int>{3}));
  EXPECT_EQ(result.texts[0].ids, (std::vector<int>{1, 2}));
}

TEST_F(ScriptedStudies, BatchedCasesSayWhatTheyCouldNotHave) {
  const Study& study = study_named("batches");
  BatchedOptions options;
  options.prompts = std::vector<Prompt>(5, Tokens{1, 2});
  options.batch_sizes = {1, 2, 5, 6};
  options.new_tokens = 7;
  options.padding = Padding::left;
  const std::vector<Case> cases = study.cases(context(), options);
  ASSERT_EQ(cases.size(), 4U);
  for (const Case& spec : cases) {
    EXPECT_EQ(spec.scenario, Scenario::batches);
    EXPECT_EQ(spec.prompts.size(), 5U);
    EXPECT_EQ(spec.new_tokens, 7);
    EXPECT_EQ(spec.padding, Padding::left);
    EXPECT_EQ(spec.truncation, Truncation::none);
  }
  EXPECT_EQ(cases[1].label, "batch 2");
  EXPECT_EQ(cases[1].batch_size, 2);
  EXPECT_EQ(cases[3].batch_size, 5);
  EXPECT_EQ(texts_of(cases[0]), Texts{});
  EXPECT_EQ(texts_of(cases[1]), Texts{"the last batch holds 1 of 2 sequences"});
  EXPECT_EQ(texts_of(cases[2]), Texts{});
  EXPECT_EQ(texts_of(cases[3]), Texts{"a batch of 6 was asked for, but there are 5 prompts"});
  options.batch_sizes = {0};
  EXPECT_EQ(refusal_of([&] { study.cases(context(), options); }),
            "batch_sizes: expected whole numbers from 1, found 0");
  // The prompts that ship are cut where they do not fit; others are not.
  const std::vector<Case> usual =
      study.cases(context(), BatchedOptions{.batch_sizes = {8}, .new_tokens = 50});
  EXPECT_EQ(usual[0].prompts, default_batch_prompts());
  EXPECT_EQ(usual[0].truncation, Truncation::left);
  options.prompts = {Tokens(60, 1)};
  options.batch_sizes = {1};
  EXPECT_EQ(study.cases(context(), options)[0].truncation, Truncation::none);
}

TEST_F(ScriptedStudies, EveryPrecisionRunsTheSamePromptsInBatchesOfOneSize) {
  const Study& study = study_named("batched-precisions");
  BatchedPrecisionsOptions options;
  options.precisions = {"float32", "nf4", "int8-dynamic+head"};
  options.prompts = std::vector<Prompt>(5, Tokens{1, 2});
  options.batch_size = 4;
  options.new_tokens = 7;
  const std::vector<Case> cases = study.cases(context(), options);
  ASSERT_EQ(cases.size(), 3U);
  EXPECT_EQ(cases[0].label, "float32");
  EXPECT_EQ(cases[1].label, "nf4");
  EXPECT_EQ(cases[2].label, "int8-dynamic+head:int8");
  for (const Case& spec : cases) {
    EXPECT_EQ(spec.scenario, Scenario::batched_precisions);
    EXPECT_EQ(spec.configuration.label(), spec.label);
    EXPECT_EQ(spec.batch_size, 4);
    EXPECT_EQ(spec.prompts.size(), 5U);
    EXPECT_EQ(spec.new_tokens, 7);
    EXPECT_EQ(texts_of(spec), Texts{"the last batch holds 1 of 4 sequences"});
  }
  EXPECT_TRUE(study.applies(context(), options));
  options.precisions = {"nf4"};
  EXPECT_FALSE(study.applies(context(), options)) << "one alone is compared with nothing";
  options.batch_size = 0;
  EXPECT_EQ(refusal_of([&] { study.cases(context(), options); }),
            "batch_size: expected a whole number from 1, found 0");
}

TEST_F(ScriptedStudies, PrecisionsInBatchesCompareWithTheFirst) {
  take({{"float32", {4, 1}}, {"nf4", {2, 1}}});
  const ExperimentResult result = run("batched-precisions", [](std::any& o) {
    auto& options = std::any_cast<BatchedPrecisionsOptions&>(o);
    options.precisions = {"float32", "nf4"};
    options.prompts = std::vector<Prompt>(4, Tokens{1, 2});
    options.batch_size = 4;
  });
  ASSERT_EQ(result.comparisons.size(), 1U);
  EXPECT_EQ(result.comparisons[0].subject, "nf4");
  EXPECT_EQ(result.comparisons[0].baseline, "float32");
  EXPECT_EQ(result.comparisons[0].scenario, Scenario::batched_precisions);
  ASSERT_EQ(result.rows.size(), 2U);
  EXPECT_EQ(result.rows[1].setting.batch_size, 4);
}

// Within a budget they come after what every reader needs, and with processes enough for a verdict.
TEST_F(ScriptedStudies, PrecisionsInBatchesAreNotEssential) {
  const Study& study = study_named("batched-precisions");
  BatchedPrecisionsOptions options;
  options.precisions = {"float32", "bfloat16", "nf4"};
  const CostedStudy costed = study.costs(context(), options, [](const Case&) { return CaseCost{}; });
  EXPECT_TRUE(costed.needs_verdict);
  ASSERT_EQ(costed.cases.size(), 3U);
  for (const CostedCase& c : costed.cases) {
    EXPECT_FALSE(c.is_essential) << c.key;
    EXPECT_FALSE(c.is_asked) << c.key;
    EXPECT_EQ(c.need, Need::batched_precisions);
  }
  EXPECT_EQ(costed.cases[2].value, "nf4");
}

TEST(SuitePlan, MeasuresPrecisionsInTheLargestBatchThatIsAskedFor) {
  const auto size_of = [](const SuiteOptions& options) {
    for (const PlannedStudy& planned : suite_plan(options))
      if (planned.study->name == "batched-precisions")
        return std::any_cast<const BatchedPrecisionsOptions&>(planned.options).batch_size;
    return std::int64_t{0};
  };
  SuiteOptions options;
  EXPECT_EQ(size_of(options), 8);
  options.studies["batches"] = BatchedOptions{.prompts = {}, .batch_sizes = {2, 16, 4}};
  EXPECT_EQ(size_of(options), 16);
}

TEST_F(ScriptedStudies, BatchesCompareWithTheFirstThatIsSmaller) {
  take({{"batch 1", {5, 1}}, {"batch 2", {3, 1}}, {"batch 4", {2, 1}}});
  const ExperimentResult result = run("batches", [](std::any& o) {
    auto& options = std::any_cast<BatchedOptions&>(o);
    options.prompts = std::vector<Prompt>(4, Tokens{1, 2});
    options.batch_sizes = {2, 4, 1};
  });
  // Batch 1 is slower, but smaller than the first; batch 4 is larger, but faster.
  EXPECT_TRUE(test::remarks_of(result).empty());
  EXPECT_EQ(result.comparisons.size(), 2U);
}

TEST_F(ScriptedStudies, LengthsHaveTheirLimits) {
  const Study& study = study_named("lengths");
  LengthsOptions options{.lengths = {9, 3}, .new_tokens = 4};
  const std::vector<Case> cases = study.cases(context(), options);
  ASSERT_EQ(cases.size(), 2U);
  EXPECT_EQ(cases[0].label, "3 tokens") << "the shortest first";
  EXPECT_EQ(cases[0].scenario, Scenario::lengths);
  EXPECT_EQ(std::get<Tokens>(cases[0].prompts[0]).size(), 3U);
  EXPECT_EQ(cases[1].prompts[0], Prompt(ids_of_length(context(), options.base, 9)));
  EXPECT_EQ(cases[0].new_tokens, 4);
  EXPECT_TRUE(cases[0].uses_cache);
  options.lengths = {-1};
  EXPECT_EQ(refusal_of([&] { study.cases(context(), options); }),
            "lengths: expected whole numbers from 0, found -1");
  options.lengths = {1};
  options.new_tokens = 64;
  EXPECT_EQ(refusal_of([&] { study.cases(context(), options); }),
            "64 new tokens leave no room for a prompt in the model's context of 64");
  options.lengths = {60};
  options.new_tokens = 4;
  EXPECT_EQ(texts_of(study.cases(context(), options)[0]), Texts{});
}

TEST_F(ScriptedStudies, KvCacheCasesHaveTheirLengthAndFormat) {
  const Study& study = study_named("kv-cache");
  const auto set = [&](std::any& options, const char* name, const OptionValue& value) {
    for (const StudyOption& option : study.options)
      if (option.name == name) option.set(options, value);
  };
  const auto cases_of_length = [&](std::int64_t length, std::int64_t new_tokens) {
    std::any options = study.defaults;
    set(options, "length", length);
    set(options, "max-new-tokens", new_tokens);
    return study.cases(context(), options);
  };
  const std::vector<Case> cases = cases_of_length(0, 4);
  ASSERT_EQ(cases.size(), 3U);
  const char* labels[] = {"float32", "bfloat16", "int8"};
  const KvFormat formats[] = {KvFormat::float32, KvFormat::bfloat16, KvFormat::int8};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(cases[i].label, labels[i]);
    EXPECT_EQ(cases[i].configuration.kv_cache, formats[i]);
    EXPECT_EQ(cases[i].scenario, Scenario::kv_cache);
    EXPECT_EQ(std::get<Tokens>(cases[i].prompts[0]).size(), 60U);
    EXPECT_EQ(cases[i].new_tokens, 4);
  }
  EXPECT_EQ(std::get<Tokens>(cases_of_length(7, 4)[0].prompts[0]).size(), 7U);
  EXPECT_EQ(std::get<Tokens>(cases_of_length(60, 4)[0].prompts[0]).size(), 60U);
  EXPECT_EQ(std::get<Tokens>(cases_of_length(0, 63)[0].prompts[0]).size(), 1U);
  EXPECT_EQ(refusal_of([&] { cases_of_length(61, 4); }),
            "a prompt of 61 tokens and 4 new ones exceed the model's context of 64");
  EXPECT_EQ(refusal_of([&] { cases_of_length(0, 64); }),
            "a prompt of 1 tokens and 64 new ones exceed the model's context of 64");
  EXPECT_EQ(refusal_of([&] { cases_of_length(5, 64); }),
            "a prompt of 5 tokens and 64 new ones exceed the model's context of 64");
}

TEST_F(ScriptedStudies, ThreadCasesAreOfTheirNumber) {
  const Study& study = study_named("threads");
  const auto allowed = static_cast<std::int64_t>(allowed_processors().size());
  const std::vector<Case> cases =
      study.cases(context(), ThreadsOptions{.threads = {allowed + 2, 1}, .prompt = "a", .new_tokens = 3});
  ASSERT_EQ(cases.size(), 2U);
  EXPECT_EQ(cases[0].label, "1 thread");
  EXPECT_EQ(cases[0].configuration.threads, 1);
  EXPECT_EQ(cases[0].scenario, Scenario::threads);
  EXPECT_EQ(cases[0].prompts, std::vector<Prompt>{"a"});
  EXPECT_EQ(cases[0].new_tokens, 3);
  EXPECT_EQ(cases[1].label, fmt::format("{} threads", allowed + 2));
  EXPECT_EQ(texts_of(cases[1]), Texts{fmt::format("{} threads on {} processor{} wait for each other",
                                                  allowed + 2, allowed, allowed == 1 ? "" : "s")});
  EXPECT_EQ(refusal_of([&] {
              study.cases(context(), ThreadsOptions{.threads = {1, 1025}});
            }),
            "threads: expected 1 to 1024, found 1025");
  EXPECT_EQ(refusal_of([&] { study.cases(context(), ThreadsOptions{.threads = {0}}); }),
            "threads: expected 1 to 1024, found 0");
  // Powers of two below the number of processors, and that number.
  std::vector<int> expected, found;
  for (int n = 1; n < static_cast<int>(allowed); n *= 2) expected.push_back(n);
  expected.push_back(static_cast<int>(allowed));
  for (const Case& spec : study.cases(context(), ThreadsOptions{}))
    found.push_back(*spec.configuration.threads);
  EXPECT_EQ(found, expected);
}

TEST_F(ScriptedStudies, EdgeCasesAreTenAndThoseOfTheUser) {
  const Study& study = study_named("edge");
  EdgeOptions options{.new_tokens = 4, .more = {{"mine", "a"}}, .prompts = {"b", Tokens{1}}};
  std::vector<Case> cases = study.cases(context(), options);
  const char* labels[] = {"typical",    "very short",  "very long",    "multi-line",
                          "repetitive", "only blanks", "rare Unicode", "digits",
                          "code",       "mine",        "own prompt 1", "own prompt 2"};
  ASSERT_EQ(cases.size(), 12U);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(cases[i].label, labels[i]);
    EXPECT_EQ(cases[i].scenario, Scenario::edge_prompts);
    EXPECT_EQ(cases[i].new_tokens, 4);
  }
  EXPECT_EQ(std::get<Tokens>(cases[2].prompts[0]).size(), 60U);
  EXPECT_EQ(std::get<Tokens>(cases[2].prompts[0]),
            ids_of_length(context(), "The road was wide and the evening light lay over the fields. ", 60));
  std::string ha, blanks;
  for (int i = 0; i < 64; ++i) ha += "ha ", blanks += " ";
  EXPECT_EQ(cases[4].prompts[0], Prompt(ha));
  EXPECT_EQ(cases[5].prompts[0], Prompt(blanks));
  EXPECT_EQ(cases[10].prompts[0], Prompt("b"));
  EXPECT_EQ(cases[4].truncation, Truncation::left) << "64 times ha is too long";
  EXPECT_EQ(cases[1].truncation, Truncation::none);
  options.new_tokens = 63;
  EXPECT_EQ(std::get<Tokens>(study.cases(context(), options)[2].prompts[0]).size(), 1U);
  options.new_tokens = 64;
  EXPECT_EQ(study.cases(context(), options).size(), 11U) << "there is no room for a long one";
}

TEST_F(ScriptedStudies, PrecisionCasesAreOfEachConfigurationOnce) {
  const std::vector<Case> cases =
      precision_cases(context(), Scenario::precisions, {"float32", "nf4", "float32", "float16"}, "a", 3);
  ASSERT_EQ(cases.size(), 2U);
  EXPECT_EQ(cases[0].label, "float32");
  EXPECT_EQ(cases[1].label, "nf4");
  EXPECT_EQ(cases[1].configuration.label(), "nf4");
  EXPECT_EQ(cases[1].scenario, Scenario::precisions);
  EXPECT_EQ(cases[1].prompts, std::vector<Prompt>{"a"});
  EXPECT_EQ(cases[1].new_tokens, 3);
  const ChosenConfigurations chosen =
      choose_configurations(context(), {"float32", "nf4", "float32", "float16"});
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(chosen.shown_as, (Pairs{{"float32", "float32"}, {"float16", "float32"}}));
  ExperimentContext made = context();
  EXPECT_EQ(precisions_or_default(made, {}), default_precisions(Device{}));
  EXPECT_EQ(precisions_or_default(made, {"nf4"}), Texts{"nf4"});
  made.is_quantized_already = true;
  EXPECT_EQ(precisions_or_default(made, {}), Texts{"auto"});
  EXPECT_EQ(precisions_or_default(made, {"nf4"}), Texts{"nf4"});
  const Texts all = default_precisions(Device{});
  ASSERT_EQ(all.size(), 19U);
  EXPECT_EQ(all[0], "float32");
  EXPECT_EQ(all[1], "float16");
  EXPECT_EQ(all[2], "bfloat16");
  EXPECT_EQ(all[3], "int8-dynamic");
  EXPECT_EQ(all[4], "int8-dynamic+head");
  EXPECT_EQ(all[18], "int4-g128+head");
  EXPECT_EQ(default_precisions({Device::Kind::cuda, 0})[1], "float32");
  take({});
  const ExperimentResult result = run("precisions", [](std::any& o) {
    auto& options = std::any_cast<PrecisionsOptions&>(o);
    options.precisions = {"float32", "nf4", "float32", "float16"};
    options.prompt = Tokens{1};
  });
  EXPECT_EQ(warnings_of_kind(result.rows[0], WarningKind::duplicate_case),
            (Texts{"asked for more than once (float32), measured once",
                   "measured once for float16 too, which resolves to the same configuration"}));
  EXPECT_TRUE(warnings_of_kind(result.rows[1], WarningKind::duplicate_case).empty());
  // float16 is float32 on a CPU: where nobody asked for it, there is nothing to leave out.
  const ExperimentResult unasked =
      run("precisions", [](std::any& o) { std::any_cast<PrecisionsOptions&>(o).prompt = Tokens{1}; });
  EXPECT_EQ(unasked.rows.size(), 18U);
  for (const Row& row : unasked.rows)
    EXPECT_TRUE(warnings_of_kind(row, WarningKind::duplicate_case).empty()) << row.label;
}

}  // namespace
}  // namespace assay

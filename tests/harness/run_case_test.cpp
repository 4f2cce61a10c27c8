// Cases on a model: what they refuse, and which figure comes from where.
#include "assay/harness/run_case.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "assay/assay.h"
#include "assay/base/error.h"
#include "assay/harness/run_costs.h"
#include "assay/machine/energy.h"
#include "assay/model/model.h"
#include "assay/text/tokenizer.h"
#include "support/fixtures.h"

namespace assay {
namespace {

using Ids = std::vector<TokenId>;

class CaseRuns : public testing::Test {
 protected:
  CaseRuns()
      : loaded_(
            load_model_and_tokenizer({test::fixture_model("with_tokenizer").string()}, "float32", Device{})),
        roofline_(*loaded_.model) {
    what_.label = "mine";
    what_.prompts = {Ids{1, 2, 3}};
    what_.new_tokens = 4;
  }
  std::string refusal() {
    try {
      run_case(loaded_, what_);
    } catch (const FieldError& error) {
      return error.field() + ": " + error.problem();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  LoadedModel loaded_;
  Roofline roofline_;
  Case what_;
};

TEST_F(CaseRuns, NeedAPromptForARooflineToo) {
  what_.prompts.clear();
  EXPECT_THROW(run_case(loaded_, what_, &roofline_), Error);
  EXPECT_THROW(first_run(loaded_, what_, roofline_, {}), Error);
}

TEST_F(CaseRuns, RefuseWhatCannotRun) {
  EXPECT_EQ(refusal(), "");
  what_.batch_size = 1;
  EXPECT_EQ(refusal(), "");
  what_.batch_size = -1;
  EXPECT_EQ(refusal(), "batch_size: expected 0 or more, found -1");
  what_.batch_size = 0;
  what_.prompts.clear();
  EXPECT_EQ(refusal(), "mine: no prompt was given");
  what_.prompts = {Ids(60, 1)};
  EXPECT_EQ(refusal(), "");
  what_.prompts = {Ids(61, 1)};
  EXPECT_NE(refusal().find("context of 64"), std::string::npos) << refusal();
  what_.truncation = Truncation::left;
  EXPECT_EQ(run_case(loaded_, what_).prompt_tokens, 60);
  EXPECT_EQ(first_run(loaded_, what_, roofline_, {}).prompt_ids[0].size(), 60U);
}

TEST_F(CaseRuns, StopWhereTheyAreTold) {
  for (const bool is_stopped : {false, true}) {
    std::string error;
    try {
      run_case(loaded_, what_, nullptr, [=] { return is_stopped; });
    } catch (const Error& e) {
      error = e.what();
    }
    EXPECT_EQ(error, is_stopped ? "interrupted" : "");
  }
  EXPECT_THROW(first_run(loaded_, what_, roofline_, {}, [] { return true; }), Error);
  EXPECT_GT(first_run(loaded_, what_, roofline_, {}).profile.parts[0].seconds, 0) << "it goes on afterwards";
}

TEST_F(CaseRuns, GenerateWhatTheModelWrites) {
  what_.prompts = {"a text of some tokens", Ids{5, 6}};
  const FirstRun first = first_run(loaded_, what_, roofline_, {});
  ASSERT_EQ(first.ids.size(), 2U);
  EXPECT_EQ(first.prompt_ids[0], loaded_.tokenizer->encode("a text of some tokens"));
  TimeOptions options;
  options.max_new_tokens = 4;
  options.has_warm_up = false;
  for (std::size_t i = 0; i < 2; ++i) {
    const TimedGeneration alone = time_generate(loaded_, what_.prompts[i], options);
    EXPECT_EQ(first.ids[i], alone.ids);
    EXPECT_EQ(first.texts[i], loaded_.tokenizer->decode_after(first.prompt_ids[i], first.ids[i]));
  }
  loaded_.tokenizer = nullptr;
  what_.prompts = {Ids{5, 6}};
  EXPECT_EQ(first_run(loaded_, what_, roofline_, {}).texts, std::vector<std::string>{""});
}

TEST_F(CaseRuns, ComputeWhatIsAsked) {
  what_.prompts = {Ids(3, 1), Ids(10, 1), Ids(5, 1)};
  Sample s = run_case(loaded_, what_);
  EXPECT_EQ(s.batches, 1);
  EXPECT_EQ(s.sequences, 3);
  EXPECT_EQ(s.prompt_tokens, 18);
  EXPECT_EQ(s.computed_prompt_tokens, 18);
  EXPECT_EQ(s.new_tokens, 12);
  EXPECT_EQ(s.step_s.size(), 3U);
  EXPECT_EQ(s.tokenize_s, s.first_tokenize_s);
  const std::string hash = s.ids_hash;
  EXPECT_EQ(hash, hash_of(first_run(loaded_, what_, roofline_, {}).ids));
  what_.padding = Padding::left;
  s = run_case(loaded_, what_);
  EXPECT_EQ(s.computed_prompt_tokens, 30) << "as long as the longest";
  EXPECT_EQ(s.ids_hash, hash);
  what_.padding = Padding::none;
  what_.batch_size = 2;
  s = run_case(loaded_, what_);
  EXPECT_EQ(s.batches, 2);
  EXPECT_EQ(s.step_s.size(), 6U);
  EXPECT_EQ(s.ids_hash, hash);
  what_.batch_size = 9;
  EXPECT_EQ(run_case(loaded_, what_).batches, 1);
  what_.uses_cache = false;
  EXPECT_EQ(run_case(loaded_, what_).ids_hash, hash);
}

TEST_F(CaseRuns, ReadRandomPromptsBehindTheirDepth) {
  what_.prompts.clear();
  what_.random_prompts = RandomPrompts{.sequences = 2, .tokens = 3, .depth = 5};
  const Sample s = run_case(loaded_, what_, &roofline_);
  EXPECT_EQ(s.sequences, 2);
  EXPECT_EQ(s.batches, 1);
  EXPECT_EQ(s.prompt_tokens, 6) << "the depth is there before";
  EXPECT_EQ(s.computed_prompt_tokens, 6);
  EXPECT_EQ(s.new_tokens, 8);
  double bytes = 0;
  for (const PhaseCosts& costs : step_costs(loaded_.model->program().plan(), {{3, 3}, 4, true, 5, 0})) {
    const Cost cost = total_cost(costs);
    bytes += static_cast<double>((cost.weight_bytes + cost.kv_bytes).value);
  }
  EXPECT_DOUBLE_EQ(s.bytes, bytes);
  const FirstRun first = first_run(loaded_, what_, roofline_, {});
  EXPECT_EQ(hash_of(first.ids), s.ids_hash) << "the same ids in each run";
  EXPECT_NE(first.ids[0], first.ids[1]) << "and others in each sequence";
  EXPECT_TRUE(first.prompt_ids.empty());
  EXPECT_TRUE(first.texts.empty());
  EXPECT_TRUE(first.profile.parts.empty()) << "it would hold the filling of the cache";
  EXPECT_EQ(first.kv_cache_bytes,
            2 * static_cast<double>(loaded_.model->program().cache_bytes(5 + 3 + 4 - 1).value));
  what_.new_tokens = 57;
  EXPECT_EQ(refusal(), "") << "the last token needs no place in the context of 64";
  what_.new_tokens = 58;
  EXPECT_NE(refusal().find("context of 64"), std::string::npos) << refusal();
}

TEST_F(CaseRuns, TimeTheFirstBatchApart) {
  // The first prompt is 50 times as long as the second, and a text of hundreds of characters.
  std::string text;
  for (int i = 0; i < 60; ++i) text += "ab ";
  what_.prompts = {text, Ids{1}};
  what_.batch_size = 1;
  what_.new_tokens = 2;
  what_.truncation = Truncation::left;
  // A thread that loses its processor to others makes the short one look long: the clearest of a few runs.
  double share = 0, tokenize_share = 0;
  Sample s;
  for (int run = 0; run < 5; ++run) {
    s = run_case(loaded_, what_);
    share = std::max(share, s.first_token_s / s.prefill_s);
    tokenize_share = std::max(tokenize_share, s.first_tokenize_s / s.tokenize_s);
  }
  EXPECT_GT(share, 0.5);
  EXPECT_GT(tokenize_share, 0.5);
  EXPECT_LT(s.first_tokenize_s, s.tokenize_s);
  EXPECT_LT(s.sampling_s, s.total_latency_s);
  EXPECT_GT(s.detokenize_s, 0);
  EXPECT_GE(s.total_latency_s, s.prefill_s + s.decode_s());
  EXPECT_GE(s.end_to_end_s, s.total_latency_s + s.tokenize_s + s.detokenize_s);
  EXPECT_LT(s.end_to_end_s, 10);
}

TEST_F(CaseRuns, HaveNoRooflineWhereNoneIsMeasured) {
  const Sample none = run_case(loaded_, what_);
  EXPECT_EQ(none.roofline_s, 0);
  EXPECT_EQ(none.roofline_gb_s, 0);
  EXPECT_EQ(none.bytes, 0);
  const Sample measured = run_case(loaded_, what_, &roofline_);
  EXPECT_GT(measured.roofline_s, 0);
  EXPECT_GT(measured.roofline_gb_s, 0);
  EXPECT_GT(measured.bytes, 0);
}

class KnownSensors : public GpuSensors {
 public:
  GpuIdentity identity() override { return {}; }
  GpuReading read() override {
    GpuReading reading;
    reading.sm_mhz = 1234;
    return reading;
  }
  std::vector<GpuProcess> processes() override { return {}; }
};

TEST_F(CaseRuns, ReadTheCountersOfTheirDevice) {
  const EnergyWatch watch;
  const Sample s = run_case(loaded_, what_);
  EXPECT_EQ(s.energy_j.has_value(), watch.joules().has_value());
  EXPECT_EQ(s.energy_why_not, watch.why_not()) << "of the processor, not of a GPU";
  EXPECT_FALSE(s.gpu);
  KnownSensors sensors;
  const Sample sensed = run_case(loaded_, what_, nullptr, {}, nullptr, &sensors);
  ASSERT_TRUE(sensed.gpu);
  EXPECT_EQ(sensed.gpu->highest_mhz, 1234);
  EXPECT_GT(s.disturbance.seconds, 0);
  EXPECT_LE(s.disturbance.seconds, 10);
}

// At the last token, of a run of one token too.
TEST_F(CaseRuns, MeasureTheMemoryOfTheProcess) {
  const auto weights = static_cast<double>(loaded_.model->program().memory().weights.value);
  for (const std::int64_t new_tokens : {1, 4}) {
    what_.new_tokens = new_tokens;
    const FirstRun first = first_run(loaded_, what_, roofline_, {});
    EXPECT_GT(first.measured_memory_bytes, weights);
    EXPECT_LT(first.measured_memory_bytes, first.peak_rss_bytes);
    EXPECT_EQ(first.kv_cache_bytes,
              static_cast<double>(loaded_.model->program().cache_bytes(3 + new_tokens - 1).value));
    EXPECT_GT(first.seconds, 0);
  }
  // The last token is never fed: 63 tokens fill one block of the cache.
  what_.prompts = {Ids(60, 1)};
  EXPECT_EQ(first_run(loaded_, what_, roofline_, {}).kv_cache_bytes,
            static_cast<double>(loaded_.model->program().cache_bytes(63).value));
}

}  // namespace
}  // namespace assay

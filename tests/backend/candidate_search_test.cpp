// The int8 candidate search finds what the whole head finds: whatever the weights and the hidden states are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "assay/backend/backend.h"
#include "assay/base/random.h"
#include "assay/plan/cost.h"
#include "support/fixtures.h"
#include "support/kernel_tiers.h"

namespace assay {
namespace {

constexpr std::int64_t kHidden = 100, kTokens = 40;

std::vector<float> random_floats(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = static_cast<float>(random.uniform() * 2 - 1);
  return values;
}

class Weights : public WeightSource {
 public:
  std::map<std::string, std::vector<float>> values;
  void read_rows(const WeightSpec& weight, std::int64_t first_row, std::int64_t row_count,
                 float* out) const override {
    std::copy_n(values.at(weight.name).data() + first_row * weight.columns, row_count * weight.columns, out);
  }
};

// A model without blocks: the embedding of a token is its hidden state.
struct HeadOnly {
  std::int64_t vocab;
  Weights weights;
  bool has_bias = false;
  float scale = 1, soft_cap = 0;

  explicit HeadOnly(std::int64_t outputs) : vocab(outputs) {
    weights.values = {{"tokens", random_floats(kTokens * kHidden, 1)},
                      {"gain", std::vector<float>(kHidden, 1.0F)},
                      {"head", random_floats(vocab * kHidden, 2)}};
  }
  std::vector<float>& head() { return weights.values["head"]; }
  void add_bias(float size) {
    has_bias = true;
    weights.values["bias"] = random_floats(vocab, 4);
    for (float& b : weights.values["bias"]) b *= size;
  }

  Plan plan(WeightFormat format, bool searches) const {
    Plan plan;
    plan.buffers = {{"hidden", kHidden}};
    plan.weights = {{.name = "tokens", .rows = kTokens, .columns = kHidden, .kind = WeightSpec::Kind::table},
                    {.name = "gain", .rows = 1, .columns = kHidden, .kind = WeightSpec::Kind::vector},
                    {.name = "head",
                     .rows = vocab,
                     .columns = kHidden,
                     .kind = WeightSpec::Kind::matrix,
                     .format = format}};
    plan.ops = {{"embed", OpClass::embed, EmbedOp{.tokens = 0, .out = 0}}};
    plan.hidden = 0;
    plan.head.norm = NormOp{.kind = Norm::rms, .gain = 1, .epsilon = 1e-5F, .in = 0};
    plan.head.product.weight = 2;
    plan.head.scale = scale;
    plan.head.soft_cap = soft_cap;
    if (has_bias) {
      plan.weights.push_back({.name = "bias", .rows = 1, .columns = vocab, .kind = WeightSpec::Kind::vector});
      plan.head.product.bias = 3;
    }
    plan.vocab = vocab;
    plan.context = kTokens;
    plan.layers = plan.kv_heads = 1;
    plan.head_dim = 16;
    plan.has_candidate_search = searches;
    return plan;
  }
  // The highest output for `rows` tokens at once, and what share of them was computed exactly.
  std::vector<TokenId> highest(Isa isa, WeightFormat format, bool searches, std::int64_t rows,
                               double* share = nullptr) const {
    const auto program = test::cpu_backend(isa)->prepare(plan(format, searches), weights);
    const auto cache = program->make_cache();
    Batch batch;
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < rows; ++i) {
      batch.ids.push_back(static_cast<TokenId>(i));
      batch.positions.push_back(static_cast<std::int32_t>(i));
      all.push_back(i);
    }
    batch.sequences = {{cache->add_sequence(), 0, rows, 0}};
    program->run(batch, *cache);
    std::vector<TokenId> ids(all.size(), -2);
    program->head(all, ArgmaxSink{ids});
    if (share != nullptr) *share = program->exact_head_share();
    return ids;
  }
};

class CandidateSearch : public testing::TestWithParam<std::tuple<Isa, WeightFormat>> {
 protected:
  void SetUp() override {
    if (!is_usable(isa())) GTEST_SKIP() << "this machine has no " << name_of(isa());
  }
  static Isa isa() { return std::get<Isa>(GetParam()); }
  static WeightFormat format() { return std::get<WeightFormat>(GetParam()); }
  static void expect_the_same(const HeadOnly& model, double least_share, double most_share) {
    for (const std::int64_t rows : {1, 2, 5, 33, 40}) {
      double share = -1;
      EXPECT_EQ(model.highest(isa(), format(), true, rows, &share),
                model.highest(isa(), format(), false, rows))
          << rows << " rows";
      EXPECT_GE(share, least_share) << rows << " rows";
      EXPECT_LE(share, most_share) << rows << " rows";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Isas, CandidateSearch,
                         testing::Combine(testing::ValuesIn(kAllIsas),
                                          testing::Values(formats::kFloat32, formats::kBfloat16)),
                         [](const auto& p) {
                           return std::string(name_of(std::get<Isa>(p.param))) + "_" +
                                  assay::name_of(std::get<WeightFormat>(p.param));
                         });

TEST_P(CandidateSearch, FindsTheSameFromFewPanels) {
  expect_the_same(HeadOnly(3001), 1.0 / 3001, 0.2);
}

// Logits that differ by less than int8 can tell, and some that are equal: the lowest of them counts.
TEST_P(CandidateSearch, FindsTheLowestOfNearAndEqualOutputs) {
  HeadOnly model(1000);
  const std::vector<float>& head = model.head();
  const std::vector<float> first(head.begin(), head.begin() + kHidden);
  Random random(3);
  for (std::int64_t output = 900; output < 1000; ++output)
    for (std::int64_t k = 0; k < kHidden; ++k) {
      const float x = model.weights.values["tokens"][static_cast<std::size_t>(k)];  // that of token 0
      float& w = model.head()[static_cast<std::size_t>(output * kHidden + k)];
      w = x + (output % 2 == 0 ? 0.0F : 1e-4F * static_cast<float>(random.uniform() - 0.5));
    }
  expect_the_same(model, 1.0 / 1000, 1);
}

// A soft cap that makes one number of many logits changes nothing: the highest is that of the sums.
TEST_P(CandidateSearch, FindsTheHighestOfBentLogits) {
  HeadOnly model(1000);
  const HeadOnly plain = model;
  model.scale = 3;
  model.soft_cap = 0.01F;
  expect_the_same(model, 1.0 / 1000, 0.2);
  EXPECT_EQ(model.highest(isa(), format(), true, 40), plain.highest(isa(), format(), false, 40));
}

// Equal outputs above all others, in one panel and in two.
TEST_P(CandidateSearch, FindsTheLowestOfTheHighest) {
  for (const std::int64_t other : {903, 950}) {
    HeadOnly model(1000);
    model.has_bias = true;
    model.weights.values["bias"] = std::vector<float>(1000, 0.0F);
    for (const std::int64_t output : {std::int64_t{900}, other}) {
      std::copy_n(model.head().begin(), kHidden, model.head().begin() + output * kHidden);
      model.weights.values["bias"][static_cast<std::size_t>(output)] = 100;
    }
    expect_the_same(model, 1.0 / 1000, 0.2);
    EXPECT_EQ(model.highest(isa(), format(), true, 3), std::vector<TokenId>(3, 900));
  }
}

// Below zero too, in a last panel that is not whole: what lies behind the vocabulary is no token.
TEST_P(CandidateSearch, FindsNothingBehindTheVocabulary) {
  HeadOnly model(997);
  model.has_bias = true;
  model.weights.values["bias"] = std::vector<float>(997, -1000.0F);
  model.weights.values["bias"][996] = -500;
  expect_the_same(model, 1.0 / 997, 0.2);
  EXPECT_EQ(model.highest(isa(), format(), true, 3), std::vector<TokenId>(3, 996));
}

// Biases small and large, beside activations of any size: a bias alone is rounded, too.
TEST_P(CandidateSearch, AddsBiases) {
  const auto changes = [](const HeadOnly& model) {
    HeadOnly without = model;
    without.has_bias = false;
    return model.highest(isa(), format(), true, 40) != without.highest(isa(), format(), true, 40);
  };
  for (const float size : {0.1F, 3.0F, 1000.0F}) {
    HeadOnly model(1000);
    model.add_bias(size);
    expect_the_same(model, 1.0 / 1000, size > 100 ? 1 : 0.3);
    EXPECT_TRUE(changes(model));
  }
  // Differences far below what is left of the bias, of activations next to nothing.
  HeadOnly model(1000);
  std::fill(model.weights.values["gain"].begin(), model.weights.values["gain"].end(), 1e-6F);
  model.has_bias = true;
  model.weights.values["bias"] = std::vector<float>(1000, 1e3F);
  expect_the_same(model, 1.0 / 1000, 1);
  model.weights.values["bias"][77] = std::numeric_limits<float>::infinity();
  expect_the_same(model, 1, 1);
}

// Beside a bias of 1000, whose neighbour is 2^-14 higher. Output 100 is 0.501 of that higher, by its codes
// 0.497; output 900 is 0.98 higher by both: rounded, the two are equal, but their codes are not.
TEST_P(CandidateSearch, FindsTheLowestWhereTheBiasRoundsSmallDifferencesUp) {
  HeadOnly model(1000);
  std::fill(model.weights.values["tokens"].begin(), model.weights.values["tokens"].end(), 8.0F);
  std::fill(model.weights.values["gain"].begin(), model.weights.values["gain"].end(), 1.25F * 0x1p-21F);
  model.has_bias = true;
  model.weights.values["bias"] = std::vector<float>(1000, 1e3F);
  std::fill(model.head().begin(), model.head().end(), 0.0F);
  const auto first = model.head().begin() + 100 * kHidden, second = model.head().begin() + 900 * kHidden;
  std::fill(first, first + kHidden, 130.0F / 256);  // code 64.49
  *first = 1;
  std::fill(second, second + kHidden, 1.0F);
  expect_the_same(model, 1.0 / 1000, 1);
  EXPECT_EQ(model.highest(isa(), format(), true, 3), std::vector<TokenId>(3, 100));
}

// Rows whose largest weight hides all others: codes say next to nothing of them.
TEST_P(CandidateSearch, ComputesTheWholeHeadWhereBoundsAreLoose) {
  HeadOnly model(500);
  for (std::int64_t output = 0; output < 500; ++output)
    model.head()[static_cast<std::size_t>(output * kHidden)] = 1000.0F;
  expect_the_same(model, 1, 1);
}

TEST_P(CandidateSearch, ComputesTheWholeHeadWhereSomethingIsNotFinite) {
  HeadOnly model(500);
  model.head()[4321] = std::numeric_limits<float>::infinity();
  expect_the_same(model, 1, 1);
  model = HeadOnly(500);
  model.head()[4321] = std::numeric_limits<float>::quiet_NaN();
  expect_the_same(model, 1, 1);
  model = HeadOnly(500);
  model.weights.values["tokens"][7] = std::numeric_limits<float>::quiet_NaN();  // the first row
  expect_the_same(model, 0.5, 1);
}

TEST_P(CandidateSearch, ZerosAndTinyNumbersAreNoTrap) {
  HeadOnly model(100);
  std::fill(model.head().begin(), model.head().end(), 0.0F);
  expect_the_same(model, 1, 1);  // all are equal
  model.head()[55 * kHidden + 3] = 1e-30F;
  expect_the_same(model, 0, 1);
}

TEST(CandidateSearchCost, ReadsCodesInsteadOfWeights) {
  const HeadOnly model(1000);
  const Plan plain = model.plan(formats::kFloat32, false), searched = model.plan(formats::kFloat32, true);
  EXPECT_EQ(cost_of(plain, 1, 0, 1).weight_bytes.value - cost_of(searched, 1, 0, 1).weight_bytes.value,
            1000 * kHidden * 3 - 1000 * 16);
  EXPECT_EQ(cost_of(plain, 1, 0, 0).weight_bytes.value, cost_of(searched, 1, 0, 0).weight_bytes.value);
}

class CandidateKernel : public test::TestOfKernelTiers {};
INSTANTIATE_TEST_SUITE_P(Isas, CandidateKernel, test::kKernelTiers,
                         [](const auto& info) { return info.param.name(); });

TEST_P(CandidateKernel, MarksWhatTheReferenceMarks) {
  for (const std::int64_t n : {1, 15, 16, 17, 100, 1003})
    for (const float looseness : {0.0F, 0.01F, 0.3F}) {
      // Quarters, so that no rounding differs.
      const auto quarters = [&](std::uint64_t seed, float scale) {
        std::vector<float> values = random_floats(n, seed);
        for (float& v : values) v = std::round(v * 64) / 4 * scale;
        return values;
      };
      const std::vector<float> outputs = quarters(1, 1);
      std::vector<float> code_norms = quarters(2, 1), error_norms = quarters(3, 1);
      for (float& norm : code_norms) norm = std::fabs(norm);
      for (float& norm : error_norms) norm = std::fabs(norm);
      const std::size_t panels = static_cast<std::size_t>((n + 15) / 16);
      std::vector<std::uint8_t> want(panels, 7), got(panels, 7);
      cpu::CandidateArgs args{outputs.data(),
                              code_norms.data(),
                              error_norms.data(),
                              n,
                              std::round(looseness * 64) / 64,
                              std::round(looseness * 32) / 64,
                              want.data()};
      reference_.mark_candidates(args);
      args.marks = got.data();
      table_.mark_candidates(args);
      EXPECT_EQ(got, want) << n << " " << looseness;
      EXPECT_NE(std::count(want.begin(), want.end(), 1), 0);
    }
}

}  // namespace
}  // namespace assay

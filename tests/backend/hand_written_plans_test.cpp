// Every ingredient that the plan vocabulary has, in orders that no family here writes: each program's logits
// are those of a slow interpreter, and its bits depend on nothing but the tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "assay/backend/cpu/kernels/select.h"
#include "assay/backend/cpu/run/executor.h"
#include "assay/plan/cost.h"
#include "assay/plan/liveness.h"
#include "support/family_like_plans.h"
#include "support/fixtures.h"

namespace assay {
namespace {

using test::HandWrittenPlan;
using test::Ingredients;
using test::kPlanLayers;
using test::kPlans;
using test::kPlanVocab;
using test::PlanInterpreter;
using test::written;

std::vector<TokenId> some_tokens(std::int64_t count, TokenId seed) {
  std::vector<TokenId> ids;
  for (std::int64_t i = 0; i < count; ++i)
    ids.push_back(static_cast<TokenId>((seed * 7 + i * i * 11 + i * 3) % kPlanVocab));
  return ids;
}

struct Sequence {
  std::vector<TokenId> ids;
  std::int64_t done = 0;
  int number = -1;
};

// Runs the next tokens of each sequence, as many as `counts` says; logits of the rows that are wanted.
std::vector<float> step(Program& program, KvCache& cache, std::vector<Sequence*> sequences,
                        const std::vector<std::int64_t>& counts, bool wants_last_alone = false) {
  Batch batch;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    Sequence& s = *sequences[i];
    if (s.number < 0) s.number = cache.add_sequence();
    batch.sequences.push_back({s.number, static_cast<std::int64_t>(batch.ids.size()), counts[i], 0});
    for (std::int64_t j = 0; j < counts[i]; ++j, ++s.done) {
      batch.ids.push_back(s.ids[static_cast<std::size_t>(s.done)]);
      batch.positions.push_back(static_cast<std::int32_t>(s.done));
    }
    if (wants_last_alone) batch.wanted.push_back(static_cast<std::int64_t>(batch.ids.size()) - 1);
  }
  batch.wants_all = !wants_last_alone;
  program.run(batch, cache);
  std::vector<std::int64_t> rows = batch.wanted;
  if (batch.wants_all) {
    rows.resize(batch.ids.size());
    std::iota(rows.begin(), rows.end(), std::int64_t{0});
  }
  std::vector<float> logits(rows.size() * kPlanVocab);
  program.head(rows, LogitsSink{logits});
  return logits;
}

std::vector<float> logits_at_once(Program& program, const std::vector<TokenId>& ids) {
  const auto cache = program.make_cache();
  Sequence s{ids};
  return step(program, *cache, {&s}, {static_cast<std::int64_t>(ids.size())});
}

std::vector<float> last_of(const std::vector<float>& logits) {
  return {logits.end() - kPlanVocab, logits.end()};
}

double deviation_of(const std::vector<double>& x) {
  double mean = 0, squares = 0;
  for (const double each : x) mean += each / static_cast<double>(x.size());
  for (const double each : x) squares += (each - mean) * (each - mean) / static_cast<double>(x.size());
  return std::sqrt(squares);
}

constexpr double kTolerance = 1e-4;  // relative to the logits' standard deviation

class HandWrittenPlans : public testing::TestWithParam<std::tuple<Isa, Ingredients>> {
 protected:
  void SetUp() override {
    if (!is_usable(isa())) GTEST_SKIP() << "this machine has no " << name_of(isa());
  }
  static Isa isa() { return std::get<Isa>(GetParam()); }
  static const Ingredients& what() { return std::get<Ingredients>(GetParam()); }
  static std::unique_ptr<Program> prepared(const HandWrittenPlan& p, int threads = 2) {
    return test::cpu_backend(isa(), threads)->prepare(p.plan, p);
  }
};
INSTANTIATE_TEST_SUITE_P(Isas, HandWrittenPlans,
                         testing::Combine(testing::ValuesIn(kAllIsas), testing::ValuesIn(kPlans)),
                         [](const auto& p) {
                           return std::string(name_of(std::get<Isa>(p.param))) + "_" +
                                  std::get<Ingredients>(p.param).name;
                         });

TEST_P(HandWrittenPlans, GiveTheLogitsOfTheInterpreter) {
  const HandWrittenPlan p = written(what());
  const std::vector<TokenId> ids = some_tokens(70, 1);
  static std::map<std::string, std::vector<double>> interpreted;  // once for all instruction sets
  std::vector<double>& want = interpreted[what().name];
  if (want.empty()) want = PlanInterpreter(p).logits(ids);
  const std::vector<float> got = logits_at_once(*prepared(p), ids);
  ASSERT_EQ(got.size(), want.size());
  double most = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    most = std::max(most, std::fabs(static_cast<double>(got[i]) - want[i]));
  EXPECT_LE(most, kTolerance * deviation_of(want));
}

// One by one over the cache, beside another sequence, the last row alone, on one thread: the same bits, in
// every format of weights and cache.
TEST_P(HandWrittenPlans, HaveBitsThatDependOnTokensAlone) {
  for (const auto& [format, kv_format] : {std::pair{formats::kFloat32, KvFormat::float32},
                                          {formats::kBfloat16, KvFormat::bfloat16},
                                          {formats::kFloat32, KvFormat::int8}}) {
    Ingredients formats = what();
    formats.format = format;
    formats.kv_format = kv_format;
    const HandWrittenPlan p = written(formats);
    const auto program = prepared(p);
    const std::vector<TokenId> ids = some_tokens(75, 1), others = some_tokens(33, 2);
    const std::vector<float> want = logits_at_once(*program, ids);
    EXPECT_EQ(logits_at_once(*prepared(p, 1), ids), want);

    const auto cache = program->make_cache();
    Sequence one{ids}, two{others}, last{ids};
    std::vector<float> cached = step(*program, *cache, {&one}, {60});
    while (one.done < 75) {
      const std::vector<float> next = step(*program, *cache, {&one}, {1});
      cached.insert(cached.end(), next.begin(), next.end());
    }
    EXPECT_EQ(cached, want);

    EXPECT_EQ(last_of(step(*program, *cache, {&last}, {75}, true)), last_of(want));
    Sequence beside{ids};
    EXPECT_EQ(last_of(step(*program, *cache, {&two, &beside}, {20, 75}, true)), last_of(want));
    Sequence again{ids};
    EXPECT_EQ(last_of(step(*program, *cache, {&two, &again}, {13, 75})), last_of(want));
  }
}

// What an ingredient does must show, or a test of it could not fail.
TEST(HandWrittenPlanFixtures, ShowEachIngredient) {
  const std::vector<TokenId> ids = some_tokens(30, 1);
  const auto differs = [&](const char* name, const std::function<bool(Plan&, Op&)>& breaks) {
    const auto* what = std::find_if(std::begin(kPlans), std::end(kPlans),
                                    [&](const Ingredients& each) { return std::string(each.name) == name; });
    HandWrittenPlan p = written(*what);
    const std::vector<double> want = PlanInterpreter(p).logits(ids);
    bool is_broken = false;
    for (Op& op : p.plan.ops) is_broken = breaks(p.plan, op) || is_broken;
    ASSERT_TRUE(is_broken) << name;
    const std::vector<double> broken = PlanInterpreter(p).logits(ids);
    double most = 0;
    for (std::size_t i = 0; i < want.size(); ++i) most = std::max(most, std::fabs(broken[i] - want[i]));
    EXPECT_GE(most, 5 * kTolerance * deviation_of(want)) << name;
  };
  const auto change = [](auto member, auto value) {
    return [=](Plan&, Op& op) {
      return std::visit(
          [&](auto& each) {
            if constexpr (requires { each.*member; }) {
              each.*member = value;
              return true;
            }
            return false;
          },
          op.kind);
    };
  };
  differs("qwen3", [](Plan&, Op& op) {  // one head less
    auto* norm = std::get_if<NormOp>(&op.kind);
    return norm != nullptr && norm->groups > 1 && --norm->groups > 0;
  });
  differs("qwen3", [](Plan&, Op& op) {  // the norm of keys on queries
    auto* norm = std::get_if<NormOp>(&op.kind);
    return norm != nullptr && norm->column > 0 && (norm->column = 0, true);
  });
  differs("gemma2", change(&AttentionOp::soft_cap, 0.0F));
  differs("gemma2", change(&AttentionOp::window, std::int64_t{4}));
  differs("gemma2", change(&EmbedOp::scale, 1.0F));
  differs("bloom", change(&AttentionOp::alibi_slopes, std::vector<float>(4, 0.1F)));
  differs("phi", change(&RotaryOp::pairing, RotaryPairing::neighbours));
  differs("granite", change(&AddOp::scale, 1.0F));
  const auto of_plan = [&](auto breaks) {
    return [=](Plan& plan, Op&) {
      breaks(plan);
      return true;
    };
  };
  differs("gemma2", of_plan([](Plan& plan) { plan.head.soft_cap = 0; }));
  differs("granite", of_plan([](Plan& plan) { plan.head.scale = 1; }));
  differs("phi", of_plan([](Plan& plan) { plan.head.product.bias = kNone; }));
  differs("phi", of_plan([](Plan& plan) { plan.head.norm->epsilon = 1; }));
}

// Log-probabilities are those of the logits that LogitsSink gives; an argmax needs neither scale nor cap.
TEST_P(HandWrittenPlans, ScoreWhatTheirLogitsSay) {
  const HandWrittenPlan p = written(what());
  const auto program = prepared(p);
  const std::vector<TokenId> ids = some_tokens(40, 3);
  const std::vector<float> logits = logits_at_once(*program, ids);
  std::vector<std::int64_t> rows(ids.size());
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  std::vector<double> scores(ids.size());
  std::vector<TokenId> best(ids.size());
  program->head(rows, LogProbabilitySink{ids, scores});
  program->head(rows, ArgmaxSink{best});
  for (std::size_t row = 0; row < ids.size(); ++row) {
    const float* x = logits.data() + row * kPlanVocab;
    double sum = 0;
    for (std::int64_t i = 0; i < kPlanVocab; ++i) sum += std::exp(static_cast<double>(x[i]));
    EXPECT_NEAR(scores[row], static_cast<double>(x[ids[row]]) - std::log(sum), 1e-5);
    EXPECT_NEAR(x[best[row]], *std::max_element(x, x + kPlanVocab), 1e-5);
  }
}

// However many threads look for it: the lowest of equals, none beside NaN, and what is beside minus infinity.
TEST(HighestLogit, IsFoundByAnyNumberOfThreads) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto* with_bias = std::find_if(std::begin(kPlans), std::end(kPlans), [](const Ingredients& what) {
    return what.name == std::string("phi");
  });
  ASSERT_NE(with_bias, std::end(kPlans));
  const std::vector<TokenId> ids = some_tokens(5, 3);
  for (const int threads : {1, 2, 3, 40})
    for (const std::size_t rows : {1, 5}) {
      const auto highest = [&](const auto& change) {
        HandWrittenPlan p = written(*with_bias);
        const LinearOp& head = p.plan.head.product;
        std::vector<float>& weights = p.values[static_cast<std::size_t>(head.weight)];
        const auto columns = static_cast<std::ptrdiff_t>(p.plan.weight(head.weight).columns);
        std::copy_n(weights.begin() + 3 * columns, columns, weights.end() - 2 * columns);
        std::vector<float>& bias = p.values[static_cast<std::size_t>(head.bias)];
        std::fill(bias.begin(), bias.end(), 0.0F);
        change(bias);
        const auto program = test::cpu_backend(kAllIsas[0], threads)->prepare(p.plan, p);
        logits_at_once(*program, ids);
        std::vector<std::int64_t> all(rows);
        std::iota(all.begin(), all.end(), std::int64_t{0});
        std::vector<TokenId> best(rows);
        program->head(all, ArgmaxSink{best});
        return best;
      };
      const auto each = [&](TokenId id) { return std::vector<TokenId>(rows, id); };
      EXPECT_EQ(highest([](auto& bias) { bias[3] = bias[kPlanVocab - 2] = 1e3F; }), each(3)) << threads;
      EXPECT_EQ(highest([](auto& bias) { bias[kPlanVocab - 2] = 1e3F; }), each(kPlanVocab - 2)) << threads;
      EXPECT_EQ(highest([](auto& bias) {
                  std::fill(bias.begin(), bias.end(), -kInfinity);
                  bias[kPlanVocab - 1] = 0;
                }),
                each(kPlanVocab - 1))
          << threads;
      for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{20}, kPlanVocab - 1})
        EXPECT_EQ(highest([&](auto& bias) { bias[static_cast<std::size_t>(bad)] = kInfinity - kInfinity; }),
                  each(-1))
            << threads;
    }
}

TEST_P(HandWrittenPlans, TakeTheMemoryThatIsPredicted) {
  const HandWrittenPlan p = written(what());
  const auto backend = test::cpu_backend(isa());
  const MemoryReport real = backend->prepare(p.plan, p)->memory(),
                     predicted = backend->predict(p.plan, 10).program;
  EXPECT_EQ(real.workspace.value, predicted.workspace.value);
  EXPECT_EQ(real.weights.value, predicted.weights.value);
  if (what().is_gated) return;  // outputs that wait for their gate take more than all buffers here
  std::int64_t separate = 0;
  for (const BufferSpec& buffer : p.plan.buffers) separate += buffer.columns * 512 * 4;
  EXPECT_LT(real.workspace.value, separate);
}

// A key or value that is not finite is seen by every query that sees it, bent scores or not.
TEST_P(HandWrittenPlans, ReportWhatIsNotFinite) {
  HandWrittenPlan p = written(what());
  const auto& embed = std::get<EmbedOp>(p.plan.ops.front().kind);
  constexpr TokenId kBad = 36;
  const WeightSpec& tokens = p.plan.weight(embed.tokens);
  p.values[static_cast<std::size_t>(embed.tokens)][static_cast<std::size_t>(kBad * tokens.columns)] =
      std::numeric_limits<float>::quiet_NaN();
  std::vector<TokenId> ids(12, 1);
  ids[5] = kBad;
  const std::vector<float> logits = logits_at_once(*prepared(p), ids);
  // The window of one layer hides it from no row, since the other layer has none.
  for (std::size_t row = 0; row < ids.size(); ++row)
    EXPECT_EQ(std::isnan(logits[row * kPlanVocab]), row >= 5) << row;
}

std::int64_t attend_calls = 0;
void (*real_attend)(const cpu::AttendArgs&) noexcept = nullptr;

// In a decode step the keys and values of grouped heads are read once for all of them.
TEST(GroupedHeads, AreAttendedTogether) {
  Ingredients what = kPlans[1];
  what.heads = 8;
  for (const int threads : {1, 2}) {
    const HandWrittenPlan p = written(what);
    cpu::KernelTable table = cpu::select_kernels(best_usable_isa());
    real_attend = table.attend;
    table.attend = [](const cpu::AttendArgs& args) noexcept {
      std::atomic_ref(attend_calls).fetch_add(1);
      real_attend(args);
    };
    cpu::Executor program(p.plan, p, table, std::make_shared<ThreadPool>(threads), {});
    const auto cache = program.make_cache();
    Sequence s{some_tokens(20, 1)};
    step(program, *cache, {&s}, {19});
    attend_calls = 0;
    step(program, *cache, {&s}, {1});
    EXPECT_EQ(attend_calls, kPlanLayers * what.kv_heads);
  }
  // One group for two threads: each takes half of the heads.
  what.kv_heads = 1;
  const HandWrittenPlan p = written(what);
  cpu::KernelTable table = cpu::select_kernels(best_usable_isa());
  table.attend = [](const cpu::AttendArgs& args) noexcept {
    std::atomic_ref(attend_calls).fetch_add(1);
    real_attend(args);
  };
  cpu::Executor program(p.plan, p, table, std::make_shared<ThreadPool>(2), {});
  const auto cache = program.make_cache();
  Sequence s{some_tokens(20, 1)};
  attend_calls = 0;
  step(program, *cache, {&s}, {1});
  EXPECT_EQ(attend_calls, kPlanLayers * 2);
}

// An activation that is as large as the threshold is an outlier: neither quantized nor lost.
TEST(OutliersOfPlans, BeginAtTheThreshold) {
  HandWrittenPlan p;
  p.plan.hidden = p.buffer(64);
  const WeightId tokens = p.table(3, 64);
  p.op(OpClass::embed, EmbedOp{.tokens = tokens, .out = p.plan.hidden});
  p.plan.head.product = {.weight = p.matrix(20, 64, formats::kLlmInt8), .outlier_threshold = 6};
  p.plan.vocab = 20;
  p.plan.context = 8;
  p.plan.layers = p.plan.kv_heads = 1;
  p.plan.head_dim = 16;
  p.values[static_cast<std::size_t>(tokens)][5] = 6;  // that of the first token; all others are below 2
  const std::vector<double> wanted = PlanInterpreter(p).logits({0});
  for (const Isa isa : test::usable_isas()) {
    const auto program = test::cpu_backend(isa)->prepare(p.plan, p);
    const auto cache = program->make_cache();
    Batch batch;
    batch.ids = {0};
    batch.positions = {0};
    batch.sequences = {{cache->add_sequence(), 0, 1, 0}};
    program->run(batch, *cache);
    std::vector<float> logits(20);
    const std::int64_t row = 0;
    program->head(std::span(&row, 1), LogitsSink{logits});
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(logits[i], wanted[i], 0.1) << name_of(isa);
  }
}

// One scale for all tokens is that of the activations as their factors leave them. Factors that are powers of
// two round nothing: the same activations multiplied beforehand give the same bits.
TEST(TensorScales, AreThoseOfActivationsTimesTheirFactors) {
  constexpr std::int64_t kInputs = 64, kTokens = 11;
  const auto plan_with = [&](std::vector<float> factors) {
    HandWrittenPlan p;
    const BufferId in = p.buffer(kInputs);
    p.plan.hidden = p.buffer(kInputs);
    p.op(OpClass::embed, EmbedOp{.tokens = p.table(kTokens, kInputs), .out = in});
    p.op(OpClass::linear, LinearOp{.weight = p.matrix(kInputs, kInputs, formats::kInt8),
                                   .has_tensor_scale = true,
                                   .input_factors = std::move(factors),
                                   .in = in,
                                   .out = p.plan.hidden});
    p.plan.head.product.weight = p.matrix(kPlanVocab, kInputs);
    p.plan.vocab = kPlanVocab;
    p.plan.context = kTokens;
    p.plan.layers = p.plan.kv_heads = 1;
    p.plan.head_dim = 16;
    return p;
  };
  std::vector<float> factors(kInputs);
  for (std::size_t i = 0; i < factors.size(); ++i) factors[i] = std::exp2(static_cast<float>(i % 5) - 3);
  const HandWrittenPlan factored = plan_with(factors), plain = plan_with({});
  HandWrittenPlan multiplied = plain;
  std::vector<float>& activations = multiplied.values.front();
  for (std::size_t i = 0; i < activations.size(); ++i) activations[i] *= factors[i % kInputs];
  std::vector<TokenId> ids(kTokens);
  std::iota(ids.begin(), ids.end(), TokenId{0});
  for (const Isa isa : test::usable_isas()) {
    const auto logits = [&](const HandWrittenPlan& p) {
      return logits_at_once(*test::cpu_backend(isa)->prepare(p.plan, p), ids);
    };
    EXPECT_EQ(logits(factored), logits(multiplied)) << name_of(isa);
    EXPECT_NE(logits(factored), logits(plain)) << name_of(isa);
  }
}

TEST(UnsupportedPlans, AreErrors) {
  const auto refuses = [](const std::function<void(Plan&)>& spoil, const std::string& words) {
    HandWrittenPlan p = written(kPlans[1]);
    spoil(p.plan);
    try {
      test::cpu_backend(Isa::scalar)->prepare(p.plan, p);
      ADD_FAILURE() << "accepted: " << words;
    } catch (const std::exception& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  const auto attention = [](Plan& plan) -> AttentionOp& {
    for (Op& op : plan.ops)
      if (auto* found = std::get_if<AttentionOp>(&op.kind)) return *found;
    throw std::logic_error("no attention");
  };
  refuses([&](Plan& plan) { attention(plan).soft_cap = -1; }, "soft cap");
  refuses([&](Plan& plan) { attention(plan).alibi_slopes = {0.5F}; }, "ALiBi");
  refuses([](Plan& plan) { plan.head.scale = 0; }, "scale");
  refuses([](Plan& plan) { plan.head.soft_cap = std::nanf(""); }, "soft cap");
  refuses(
      [](Plan& plan) {
        for (Op& op : plan.ops)
          if (auto* norm = std::get_if<NormOp>(&op.kind)) norm->groups += 9;
      },
      "columns");
}

// What is written in parts, in any order, was not needed before.
TEST(LivenessOfPlans, NothingIsReadBeforeItIsWritten) {
  for (const Ingredients& what : kPlans) {
    const Plan plan = written(what).plan;
    std::vector<StepUse> steps;
    for (const Op& op : plan.ops) steps.push_back(use_of(plan, op));
    EXPECT_EQ(live_before(plan.widths(), steps, {plan.hidden}), std::vector<BufferId>{}) << what.name;
  }
}

// Queries of rows that nobody wants are left out where nothing but queries comes of them.
TEST(PruningOfParts, KeepsQueriesThatOthersNeed) {
  const HandWrittenPlan by_head = written(kPlans[1]);
  const Pruning pruning = pruning_of(by_head.plan);
  ASSERT_LT(pruning.attention, by_head.plan.ops.size());
  ASSERT_LT(pruning.qkv_product, pruning.attention);
  const auto& attention = std::get<AttentionOp>(by_head.plan.ops[pruning.attention].kind);
  const auto product_with = [&](decltype(Op::kind) what) {
    Plan plan = by_head.plan;
    plan.ops.insert(plan.ops.begin() + static_cast<std::ptrdiff_t>(pruning.attention),
                    {"between", OpClass::norm, std::move(what)});
    return pruning_of(plan).qkv_product;
  };
  const std::size_t none = by_head.plan.ops.size() + 1;
  HandWrittenPlan p = by_head;
  const auto norm_of = [&](std::int64_t size, std::int64_t column, int groups) {
    NormOp op{.in = attention.qkv, .out = attention.qkv, .column = column, .groups = groups};
    for (std::size_t id = 0; id < p.plan.weights.size(); ++id)
      if (p.plan.weights[id].kind == WeightSpec::Kind::vector && p.plan.weights[id].columns == size)
        op.gain = static_cast<WeightId>(id);
    return op;
  };
  // For 40 columns of queries and 20 of keys, by 10: of heads, which lie in one or the other; by 40 from 20
  // on: of both.
  EXPECT_EQ(product_with(norm_of(10, 0, 6)), pruning.qkv_product);
  EXPECT_EQ(product_with(norm_of(40, 0, 1)), pruning.qkv_product);
  EXPECT_EQ(product_with(norm_of(40, 20, 1)), none);
  EXPECT_EQ(product_with(norm_of(10, 5, 6)), none);
  EXPECT_EQ(product_with(AddOp{.in = attention.qkv, .out = by_head.plan.hidden}), none);
}

TEST(CostOfParts, CountsEachGroupOfANorm) {
  HandWrittenPlan p = written(kPlans[1]);
  const double before = cost_of(p.plan, 1, 0, 1).flops.value;
  for (Op& op : p.plan.ops)
    if (auto* norm = std::get_if<NormOp>(&op.kind); norm != nullptr && norm->groups > 1) norm->groups = 1;
  // For four heads of queries and two of keys, of ten elements each, in two layers.
  EXPECT_DOUBLE_EQ(before - cost_of(p.plan, 1, 0, 1).flops.value, 8.0 * 10 * (3 + 1) * 2);
}

}  // namespace
}  // namespace assay

// One weight of a loaded program for another format of it: as if it had been loaded so, and back again.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/backend/common/exchange.h"
#include "assay/backend/cuda/cuda_backend.h"
#include "assay/base/error.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"
#include "cuda_emulation/emulated_runtime.h"
#include "support/fixtures.h"

namespace assay {
namespace {

struct Exchanging {
  explicit Exchanging(const std::string& name)
      : folder(test::fixture_model(name)), spec(spec_from_source(folder)), source(weight_source(folder)) {}
  Plan plan(Preset precision) const { return plan_forward(spec, precision_of(precision)); }

  ModelFolder folder;
  ModelSpec spec;
  std::unique_ptr<WeightSource> source;
};

// Logits of a prompt, and of a token behind it.
std::vector<float> exchanged_logits(Program& program) {
  const auto cache = program.make_cache();
  const int sequence = cache->add_sequence();
  std::vector<float> all;
  for (const std::vector<TokenId>& ids : {std::vector<TokenId>{3, 1, 4, 1, 5, 9, 2, 6}, {7}}) {
    Batch batch;
    std::vector<std::int64_t> rows;
    for (const TokenId id : ids) {
      rows.push_back(static_cast<std::int64_t>(rows.size()));
      batch.positions.push_back(static_cast<std::int32_t>(cache->length(sequence) + rows.back()));
      batch.ids.push_back(id);
    }
    batch.sequences = {
        {.sequence = sequence, .first_row = 0, .rows = static_cast<std::int64_t>(rows.size())}};
    program.run(batch, *cache);
    std::vector<float> logits(rows.size() * static_cast<std::size_t>(program.plan().vocab));
    program.head(rows, LogitsSink{logits});
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

void expect_same_memory(const MemoryReport& found, const MemoryReport& want) {
  EXPECT_EQ(found.weights.value, want.weights.value);
  EXPECT_EQ(found.packing.value, want.packing.value);
  EXPECT_EQ(found.workspace.value, want.workspace.value);
}

// Each matrix of a model to the other precision and back.
int exchange_each(Backend& backend, const Exchanging& model, Preset own, Preset other) {
  const Plan plan = model.plan(own), others = model.plan(other);
  const std::unique_ptr<Program> program = backend.prepare(plan, *model.source);
  const MemoryReport memory = program->memory();
  const std::vector<float> logits = exchanged_logits(*program);
  int exchanged = 0;
  for (std::size_t i = 0; i < plan.weights.size(); ++i) {
    const auto id = static_cast<WeightId>(i);
    if (plan.weights[i].kind != WeightSpec::Kind::matrix ||
        plan.weights[i].format == others.weights[i].format)
      continue;
    SCOPED_TRACE(plan.weights[i].name);
    program->exchange(id, others, *model.source);
    const std::unique_ptr<Program> fresh = backend.prepare(exchanged_plan(plan, id, others), *model.source);
    const std::vector<float> found = exchanged_logits(*program);
    EXPECT_EQ(found, exchanged_logits(*fresh));
    EXPECT_NE(found, logits);
    EXPECT_EQ(program->memory().weights.value, fresh->memory().weights.value);
    EXPECT_EQ(program->memory().workspace.value, fresh->memory().workspace.value);
    EXPECT_GE(program->memory().packing.value, 0);
    program->exchange(id, plan, *model.source);
    EXPECT_EQ(exchanged_logits(*program), logits);
    expect_same_memory(program->memory(), memory);
    ++exchanged;
  }
  return exchanged;
}

class ExchangedWeight : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Of, ExchangedWeight, testing::Values("base", "llama_grouped"),
                         [](const auto& p) { return std::string(p.param); });

TEST_P(ExchangedWeight, OfAProgramOfACpuIsAsIfLoadedSo) {
  const Exchanging model(GetParam());
  BackendOptions options;
  options.threads = 2;
  const auto backend = make_backend(Device{}, options);
  for (const Preset other : {Preset::nf4, Preset::llm_int8, Preset::int8_dynamic}) {
    SCOPED_TRACE(name_of(other));
    EXPECT_GE(exchange_each(*backend, model, Preset::float32, other), 4);
  }
  EXPECT_GE(exchange_each(*backend, model, Preset::nf4, Preset::int4_g128), 4);
}

TEST_P(ExchangedWeight, OfAProgramOfAGpuIsAsIfLoadedSo) {
  const Exchanging model(GetParam());
  const auto backend = make_cuda_backend(Device{Device::Kind::cuda, 0}, cuda::make_emulated_runtime());
  EXPECT_GE(exchange_each(*backend, model, Preset::float32, Preset::nf4), 4);
  // Back to what is larger: in memory of its own.
  EXPECT_GE(exchange_each(*backend, model, Preset::nf4, Preset::llm_int8), 4);
}

// A program on which several weights are exchanged one after another is a mix of both plans.
TEST(ExchangedWeights, AddUp) {
  const Exchanging model("llama_grouped");
  const auto backend = make_backend(Device{}, {});
  const Plan own = model.plan(Preset::float32), other = model.plan(Preset::nf4);
  const std::unique_ptr<Program> program = backend->prepare(own, *model.source);
  Plan mixed = own;
  for (std::size_t i = 0; i < own.weights.size(); i += 2) {
    if (own.weights[i].kind != WeightSpec::Kind::matrix) continue;
    mixed = exchanged_plan(mixed, static_cast<WeightId>(i), other);
    program->exchange(static_cast<WeightId>(i), other, *model.source);
  }
  EXPECT_EQ(exchanged_logits(*program), exchanged_logits(*backend->prepare(mixed, *model.source)));
}

// One sentence, and nothing has changed.
TEST(ExchangedWeights, ThatCannotBeChangeNothing) {
  const Exchanging model("llama_grouped"), another("base");
  const auto backend = make_backend(Device{}, {});
  const Plan own = model.plan(Preset::float32);
  const std::unique_ptr<Program> program = backend->prepare(own, *model.source);
  const std::vector<float> logits = exchanged_logits(*program);
  WeightId vector = kNone, matrix = kNone;
  for (std::size_t i = 0; i < own.weights.size(); ++i)
    (own.weights[i].kind == WeightSpec::Kind::vector ? vector : matrix) = static_cast<WeightId>(i);
  const auto message_of = [&](WeightId id, const Plan& other) -> std::string {
    try {
      program->exchange(id, other, *model.source);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message_of(vector, model.plan(Preset::nf4)).find("expected a matrix"), std::string::npos);
  EXPECT_NE(message_of(matrix, another.plan(Preset::nf4)).find("expected a plan of the same"),
            std::string::npos);
  EXPECT_NE(message_of(kNone, model.plan(Preset::nf4)), "");
  EXPECT_EQ(exchanged_logits(*program), logits);
}

}  // namespace
}  // namespace assay

// Decode steps of programs whose attention is one kernel (kernels/attend_step.cuh): the logits of prefill.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "assay/backend/cuda/cuda_backend.h"
#include "cuda_emulation/emulated_runtime.h"
#include "support/family_like_plans.h"

namespace assay {
namespace {

const test::Ingredients kStepPlans[] = {
    {.name = "qwen3",
     .head_dim = 64,
     .qk_norm = test::QkNorm::by_head,
     .rotary_pairs = 32,
     .is_gated = true,
     .kv_format = KvFormat::bfloat16,
     .format = formats::kBfloat16},
    {.name = "gemma2",
     .heads = 6,
     .kv_heads = 1,
     .head_dim = 72,
     .rotary_pairs = 12,
     .pairing = RotaryPairing::neighbours,
     .window = 50,
     .attention_cap = 3,
     .kv_format = KvFormat::float16},
    {.name = "bloom", .kv_heads = 4, .head_dim = 64, .has_alibi = true, .kv_format = KvFormat::bfloat16}};

struct SteppedProgram {
  explicit SteppedProgram(const test::Ingredients& what) : plan(test::written(what)) {
    plan.plan.context = 600;
    backend = make_cuda_backend(Device{Device::Kind::cuda, 0}, runtime);
    program = backend->prepare(plan.plan, plan);
    cache = program->make_cache();
    sequence = cache->add_sequence();
  }
  // How much a step launched in front of the LM head; takes the logits of its last rows.
  std::int64_t run(std::span<const TokenId> ids, std::int64_t wanted = 1) {
    Batch batch;
    const auto past = static_cast<std::int32_t>(cache->length(sequence));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      batch.ids.push_back(ids[i]);
      batch.positions.push_back(past + static_cast<std::int32_t>(i));
    }
    const auto rows = static_cast<std::int64_t>(ids.size());
    batch.sequences = {{.sequence = sequence, .first_row = 0, .rows = rows}};
    const std::int64_t before = runtime->launches();
    program->run(batch, *cache);
    const std::int64_t launched = runtime->launches() - before;
    std::vector<std::int64_t> last;
    for (std::int64_t row = rows - wanted; row < rows; ++row) last.push_back(row);
    logits.assign(static_cast<std::size_t>(wanted * plan.plan.vocab), 0);
    program->head(last, LogitsSink{logits});
    return launched;
  }

  test::HandWrittenPlan plan;
  std::shared_ptr<cuda::EmulatedRuntime> runtime = cuda::make_emulated_runtime();
  std::shared_ptr<Backend> backend;
  std::unique_ptr<Program> program;
  std::unique_ptr<KvCache> cache;
  int sequence = 0;
  std::vector<float> logits;
};

std::vector<TokenId> some_ids(std::size_t count) {
  std::vector<TokenId> ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<TokenId>(i * i * 7 % test::kPlanVocab);
  return ids;
}

// Over the end of a page and of a chunk, each step first made and then replayed; the last is profiled, with
// its rotation apart.
TEST(CudaStepPrograms, HaveTheLogitsOfPrefill) {
  for (const test::Ingredients& what : kStepPlans) {
    SCOPED_TRACE(what.name);
    SteppedProgram stepped(what), whole(what);
    const std::vector<TokenId> ids = some_ids(262);
    constexpr std::size_t kPrompt = 251;
    whole.run(ids, static_cast<std::int64_t>(ids.size() - kPrompt));
    stepped.run(std::span(ids).first(kPrompt));
    for (std::size_t i = kPrompt; i < ids.size(); ++i) {
      if (i + 1 == ids.size()) stepped.program->begin_profile();
      stepped.run(std::span(ids).subspan(i, 1));
      const auto row = whole.logits.begin() + static_cast<std::ptrdiff_t>(i - kPrompt) * test::kPlanVocab;
      ASSERT_EQ(stepped.logits, std::vector<float>(row, row + test::kPlanVocab)) << "token " << i;
    }
    EXPECT_GE(stepped.runtime->replays(), 8);
  }
}

// A step has a launch less for each layer than over a cache that has no such kernel, which stores first.
TEST(CudaStepPrograms, LaunchOneKernelForAttention) {
  test::Ingredients what = kStepPlans[0];
  const std::vector<TokenId> ids = some_ids(9);
  std::int64_t launched[2] = {};
  for (const bool is_half : {false, true}) {
    what.kv_format = is_half ? KvFormat::bfloat16 : KvFormat::float32;
    SteppedProgram stepped(what);
    stepped.run(std::span(ids).first(7));
    stepped.run(std::span(ids).subspan(7, 1));
    launched[is_half ? 1 : 0] = stepped.run(std::span(ids).subspan(8, 1));
  }
  EXPECT_EQ(launched[0] - launched[1], test::kPlanLayers);
}

// Steps that follow one another on the device: a kernel that starts early reads nothing that the end of the
// step before may still write, with tables of angles in between and without.
TEST(CudaStepPrograms, FollowOneAnotherWithoutTheHost) {
  for (test::Ingredients what : {kStepPlans[0], kStepPlans[2]}) {
    SCOPED_TRACE(what.name);
    what.format = formats::kBfloat16;
    SteppedProgram queued(what), single(what);
    const std::vector<TokenId> prompt = some_ids(9);
    std::vector<TokenId> chosen(6), wanted;
    const auto best_of = [](const SteppedProgram& program) {
      const auto best = std::max_element(program.logits.begin(), program.logits.end());
      return static_cast<TokenId>(best - program.logits.begin());
    };
    queued.run(prompt);
    single.run(prompt);
    const TokenId first = best_of(single);
    for (TokenId next = first; wanted.size() < chosen.size(); wanted.push_back(next)) {
      single.run(std::span(&next, 1));
      next = best_of(single);
    }
    const Batch batch{.ids = {first},
                      .positions = {static_cast<std::int32_t>(prompt.size())},
                      .sequences = {{.sequence = queued.sequence, .first_row = 0, .rows = 1}},
                      .wanted = {}};
    queued.program->run_greedily(batch, *queued.cache, std::ssize(chosen), chosen, [] {});
    EXPECT_EQ(chosen, wanted);
  }
}

}  // namespace
}  // namespace assay

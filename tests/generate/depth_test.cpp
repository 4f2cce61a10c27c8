// Tests of speed, whose prompts are in the KV cache in part before the clock starts.
#include <gtest/gtest.h>

#include "assay/base/error.h"
#include "assay/generate/generator.h"
#include "assay/model/model.h"
#include "support/fixtures.h"

namespace assay {
namespace {

Model load_for_depth(const char* precision) {
  return Model::load(std::make_shared<const ModelFolder>(test::fixture_model("odd_heads")),
                     test::cpu_backend(best_usable_isa(), 2), precision_from_name(precision));
}

TEST(Depth, ChangesNoId) {
  for (const char* precision : {"float32", "bfloat16", "nf4"}) {
    SCOPED_TRACE(precision);
    const Model model = load_for_depth(precision);
    std::vector<std::vector<TokenId>> prompts(2);
    for (TokenId id = 1; id <= 20; ++id) {
      prompts[0].push_back(id);
      prompts[1].push_back(2 * id);
    }
    GenerationOptions options{.max_new_tokens = 9};
    const GenerationTrace whole = generate(model.backend(), model.program(), prompts, options);
    EXPECT_EQ(whole.computed_prompt_tokens, 40);
    for (const std::int64_t depth : {0, 1, 19}) {
      options.depth = depth;
      const GenerationTrace trace = generate(model.backend(), model.program(), prompts, options);
      for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(trace.sequences[i].ids, whole.sequences[i].ids) << depth;
      EXPECT_EQ(trace.computed_prompt_tokens, 2 * (20 - depth));
      EXPECT_EQ(trace.step_end.size(), 9U);
    }
  }
}

TEST(Depth, MayFillTheContextAndLeavesATokenToRead) {
  const Model model = load_for_depth("float32");
  const std::int64_t context = model.program().plan().context;
  const auto refusal = [&](std::int64_t tokens, const GenerationOptions& options) -> std::string {
    try {
      generate(model.backend(), model.program(), {std::vector<TokenId>(static_cast<std::size_t>(tokens), 1)},
               options);
    } catch (const FieldError& error) {
      return error.field();
    } catch (const Error&) {
      return "context";
    }
    return "";
  };
  EXPECT_EQ(refusal(context - 1, {.max_new_tokens = 2, .depth = 5}), "") << "the last one is never read";
  EXPECT_EQ(refusal(context - 1, {.max_new_tokens = 2}), "context");
  EXPECT_EQ(refusal(context - 1, {.max_new_tokens = 3, .depth = 5}), "context");
  EXPECT_EQ(refusal(5, {.max_new_tokens = 2, .depth = 4}), "");
  EXPECT_EQ(refusal(5, {.max_new_tokens = 2, .depth = 5}), "depth");
  EXPECT_EQ(refusal(5, {.max_new_tokens = 2, .depth = -1}), "depth");
  EXPECT_EQ(refusal(5, {.max_new_tokens = 2, .uses_cache = false, .depth = 1}), "depth");
  EXPECT_EQ(refusal(5, {.max_new_tokens = 2, .padding = Padding::left, .depth = 1}), "depth");
}

// A prompt that is being read before the clock starts can be stopped too.
TEST(Depth, IsLeftWhereItIsStopped) {
  const Model model = load_for_depth("float32");
  int asked = 0;
  const std::vector<std::vector<TokenId>> prompts(9, std::vector<TokenId>(60, 1));
  EXPECT_THROW(generate(model.backend(), model.program(), prompts, {.max_new_tokens = 1, .depth = 59}, {},
                        [&] { return ++asked > 0; }),
               Stopped);
}

}  // namespace
}  // namespace assay

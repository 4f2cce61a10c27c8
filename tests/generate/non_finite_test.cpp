// One weight of a model that is NaN or infinite: every tier and precision shows it in the logits in which the
// scalar tier does, by a prompt as by steps with the cache, and nowhere else.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "assay/base/error.h"
#include "assay/generate/generator.h"
#include "assay/generate/scorer.h"
#include "assay/model/model.h"
#include "assay/session/calibrate.h"
#include "support/fixtures.h"
#include "support/safetensors_copy.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

constexpr std::int64_t kHidden = 28;  // that of the fixture "untied"

// A number of a tensor of the model.
struct Place {
  const char *name, *tensor;
  std::size_t index;
  bool is_quantized = false;  // by the precisions that quantize; the file is refused then
};
const Place kPlaces[] = {
    {"query weight", "transformer.h.0.attn.c_attn.weight", 3 * 3 * kHidden + 9, true},
    {"key weight", "transformer.h.0.attn.c_attn.weight", 3 * 3 * kHidden + kHidden + 9, true},
    {"value weight", "transformer.h.0.attn.c_attn.weight", 3 * 3 * kHidden + 2 * kHidden + 9, true},
    {"query bias", "transformer.h.1.attn.c_attn.bias", 9},
    {"key bias", "transformer.h.0.attn.c_attn.bias", kHidden + 9},
    {"value bias", "transformer.h.1.attn.c_attn.bias", 2 * kHidden + 9},
    {"norm gain", "transformer.h.1.ln_1.weight", 5},
    {"norm bias", "transformer.h.1.ln_2.bias", 27},
    {"last norm", "transformer.ln_f.weight", 0},
    {"embedding", "transformer.wte.weight", 7 * kHidden + 4},
    {"position", "transformer.wpe.weight", 6 * kHidden + 27},
    {"MLP weight", "transformer.h.0.mlp.c_fc.weight", 5 * 4 * kHidden + 111, true},
    {"MLP bias", "transformer.h.0.mlp.c_fc.bias", 17},
    {"MLP output", "transformer.h.1.mlp.c_proj.weight", 50 * kHidden + 2, true},
    {"LM head", "lm_head.weight", 33 * kHidden + 1},
};
const float kBad[] = {std::numeric_limits<float>::quiet_NaN(), std::bit_cast<float>(0xffffffffU),
                      std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};

// A NaN and an infinity, of either sign in turns from place to place: each takes long.
std::array<float, 2> bad_at(const Place& place) {
  const auto turn = static_cast<std::size_t>(&place - kPlaces);
  return {kBad[turn % 2], kBad[2 + turn / 2 % 2]};
}

// A preset and what changes it: "nf4 dtype bfloat16".
Precision precision_of_text(const std::string& text) {
  Precision precision = precision_from_name(text.substr(0, text.find(' ')));
  const auto has = [&](std::string_view words) { return text.find(words) != std::string::npos; };
  if (has("dtype bfloat16")) set_dtype(precision, DType::bf16);
  if (has("cache int8")) precision.kv_cache = KvFormat::int8;
  if (has("per-tensor")) set_input_scale(precision, InputScale::per_tensor);
  if (has("smooth")) set_smoothing(precision, 0.5);
  if (has("threshold 0")) set_outlier_threshold(precision, 0);
  if (has("candidate")) set_lm_head_search(precision);
  return precision;
}

class NonFiniteModel : public testing::TestWithParam<const char*> {
 protected:
  const std::string text_ = GetParam();
  const Precision precision_ = precision_of_text(text_);
  test::TemporaryFolder folder_;
  Calibration calibration_;
  // Token 7 stands at position 5.
  const std::vector<TokenId> ids_ = {1, 2, 99, 60, 33, 7, 20, 44, 3, 80, 7, 12, 50, 51, 52, 53, 54, 55, 56};

  void SetUp() override {
    test::copy_model_fixture("untied", folder_.path() / "model");
    if (!precision_.needs_calibration()) return;
    std::vector<TokenId> ids(80);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i * 5 % 90);
    calibration_ = calibrate(std::make_shared<const ModelFolder>(test::fixture_model("untied")),
                             backend_of(Isa::scalar), precision_, ids);
  }

  void spoil(const Place& place, float bad) const {
    test::TensorList tensors(test::fixture_model("untied") / "model.safetensors");
    std::memcpy(tensors[place.tensor].bytes.data() + place.index * sizeof(bad), &bad, sizeof(bad));
    test::write_file(folder_.path() / "model/model.safetensors", tensors.file());
  }
  // Backends are shared and of one thread: starting and waiting for others takes longer than these models do.
  static std::shared_ptr<Backend> backend_of(Isa isa) {
    static std::map<Isa, std::shared_ptr<Backend>> all;
    std::shared_ptr<Backend>& backend = all[isa];
    if (backend == nullptr) backend = test::cpu_backend(isa, 1);
    return backend;
  }
  Model load(Isa isa) const {
    return Model::load(std::make_shared<const ModelFolder>(folder_.path() / "model"), backend_of(isa),
                       precision_, calibration_);
  }
  // Logits of all positions: of a prompt, or of one token after another.
  std::vector<float> logits(Model& model, bool is_decode) const {
    if (!is_decode) return test::all_logits(model.program(), ids_);
    const auto vocab = static_cast<std::size_t>(model.program().plan().vocab);
    std::vector<float> all(ids_.size() * vocab);
    const auto cache = model.program().make_cache();
    const int sequence = cache->add_sequence();
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      const StepItem item{sequence, std::span(ids_).subspan(i, 1)};
      run_in_steps(model.program(), *cache, std::span(&item, 1), [&](std::span<const StepPart> parts) {
        model.program().head(std::span(&parts.front().first_row, 1),
                             LogitsSink{std::span(all).subspan(i * vocab, vocab)});
      });
    }
    return all;
  }
};

TEST_P(NonFiniteModel, EveryTierShowsWhatScalarShows) {
  for (const Place& place : kPlaces) {
    for (const float bad : bad_at(place)) {
      SCOPED_TRACE(testing::Message() << text_ << ", " << place.name << " " << bad);
      spoil(place, bad);
      if (place.is_quantized && precision_.is_quantized()) {
        EXPECT_THROW(load(Isa::scalar), Error);
        continue;
      }
      Model reference = load(Isa::scalar);
      const std::vector<float> wants[] = {logits(reference, false), logits(reference, true)};
      for (const auto& want : wants)
        EXPECT_FALSE(std::all_of(want.begin(), want.end(), [](float x) { return std::isfinite(x); }));
      for (const Isa isa : test::usable_isas()) {
        if (isa == Isa::scalar) continue;
        Model model = load(isa);
        for (const bool is_decode : {false, true}) {
          const auto got = logits(model, is_decode), &want = wants[is_decode ? 1 : 0];
          for (std::size_t i = 0; i < got.size(); ++i)
            ASSERT_EQ(std::isfinite(got[i]), std::isfinite(want[i]))
                << name_of(isa) << (is_decode ? " decode" : " prefill") << " position " << i / 101
                << " logit " << i % 101 << ": " << got[i] << " for " << want[i];
        }
      }
    }
  }
}

// What is told at the end: a wrong number is worse than none.
TEST_P(NonFiniteModel, ScoresAndTextsAreRefused) {
  for (const Place& place : kPlaces) {
    if (place.is_quantized && precision_.is_quantized()) continue;
    for (const Isa isa : test::usable_isas())
      for (const float bad : {kBad[1 + (&place - kPlaces + static_cast<int>(isa)) % 3]}) {
        SCOPED_TRACE(testing::Message() << text_ << ", " << place.name << " " << bad << " " << name_of(isa));
        spoil(place, bad);
        Model model = load(isa);
        EXPECT_THROW(score(model.program(), ids_, {}), Error);
        if (std::string_view(place.name) == "LM head" && std::isinf(bad))
          continue;  // -infinity: never chosen
        GenerationOptions options;
        options.max_new_tokens = 3;
        EXPECT_THROW(generate(model.backend(), model.program(), {ids_}, options), Error);
      }
  }
}

// Rows before the first one that is touched keep every bit.
TEST_P(NonFiniteModel, EarlierPositionsKeepTheirBits) {
  // The precisions that look at all rows together.
  if (precision_.input_scale == InputScale::per_tensor || precision_.weights == formats::kLlmInt8)
    GTEST_SKIP() << "rows depend on each other";
  const auto first_touched = [](const Place& place) {
    return std::string_view(place.name) == "embedding" ? 5U : 6U;  // the position
  };
  for (const Isa isa : test::usable_isas())
    for (const bool is_decode : {false, true}) {
      test::write_file(folder_.path() / "model/model.safetensors",
                       test::read_file(test::fixture_model("untied") / "model.safetensors"));
      Model clean = load(isa);
      const auto want = logits(clean, is_decode);
      for (const Place& place : kPlaces) {
        if (std::string_view(place.name) != "embedding" && std::string_view(place.name) != "position")
          continue;
        for (const float bad : bad_at(place)) {
          spoil(place, bad);
          Model spoiled = load(isa);
          const auto got = logits(spoiled, is_decode);
          const std::size_t same = first_touched(place) * 101;
          EXPECT_EQ(std::memcmp(got.data(), want.data(), same * sizeof(float)), 0)
              << name_of(isa) << " " << place.name << " " << bad;
          EXPECT_FALSE(std::isfinite(got[same])) << name_of(isa) << " " << place.name << " " << bad;
        }
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Precisions, NonFiniteModel,
                         testing::Values("float32", "bfloat16", "float32 cache int8", "bfloat16 cache int8",
                                         "float32 candidate search", "int8-dynamic",
                                         "int8-dynamic dtype bfloat16", "int8-dynamic per-tensor",
                                         "int8-dynamic smooth", "int8-static", "llm-int8",
                                         "llm-int8 threshold 0", "nf4", "nf4 dtype bfloat16", "fp4", "nf4-dq",
                                         "int4-g128", "int4-g128 dtype bfloat16"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           return name;
                         });

}  // namespace
}  // namespace assay

// What is wrong with a GGUF file is said with the file's own keys and names of tensors, never with those that
// Transformers has for them.
#include <gtest/gtest.h>

#include <cmath>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/base/json.h"
#include "assay/model/families/families.h"
#include "assay/model/model.h"
#include "assay/quantize/write_gguf.h"
#include "assay/session/load.h"
#include "support/fixtures.h"
#include "support/gguf_copy.h"
#include "support/gguf_writer.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

using test::GgufCopy;

// Those of every family that has one.
constexpr const char* kGgufModels[] = {
    "bloom_six",        "cohere_scaled",   "falcon_one_key", "gemma2_capped",    "gemma3_scaled",
    "gemma_legacy",     "gpt_neox_serial", "granite_scaled", "llama_biased",     "llama_scaled",
    "minimal",          "mistral_yarn",    "olmo2_grouped",  "phi3_longrope",    "phi_partial",
    "qwen2_biased",     "qwen3_heads",     "quantized_q4_0", "smollm3_interval", "stablelm_serial",
    "starcoder2_untied"};

std::string gguf_path(const std::string& name) {
  return (test::fixture("gguf") / (name + ".gguf")).string();
}

class GgufRefusals : public testing::TestWithParam<const char*> {
 protected:
  GgufRefusals() : original_(gguf_path(GetParam())) {
    const auto source = open_source(gguf_path(GetParam()));
    for (const auto& [key, value] : source->config().raw().items()) {
      bool is_own = false;  // a word of the file too
      for (const GgufCopy::Key& own : original_.keys)
        is_own = is_own || own.name.find(key) != std::string::npos;
      for (const GgufCopy::Tensor& own : original_.tensors)
        is_own = is_own || own.name.find(key) != std::string::npos;
      if (!is_own) foreign_.push_back(key);
    }
    for (const char* name : {"model.layers", "transformer.", "gpt_neox.", "_proj", "mlp.", "rope_scaling"})
      foreign_.emplace_back(name);
  }

  // Empty where the file is a model.
  std::string refusal(const GgufCopy& file) const {
    test::write_file(folder_.path() / "m.gguf", file.bytes());
    try {
      const auto source = open_source(folder_.path() / "m.gguf");
      const ModelSpec spec = spec_from_source(*source);
      check_tensors(spec, Precision{}, *source);
      return spec.warnings.empty() ? "" : spec.warnings.front();
    } catch (const Error& error) {
      return error.what();
    }
  }
  void expect_own_words(const std::string& text) const {
    for (const std::string& word : foreign_)
      EXPECT_EQ(text.find(word), std::string::npos) << word << ": " << text;
  }

  const GgufCopy original_;
  std::vector<std::string> foreign_;
  const test::TemporaryFolder folder_;
};

// The sign of NaN says nothing.
TEST(GgufRefusal, OfRotaryFactorsSaysNaN) {
  const test::TemporaryFolder folder;
  GgufCopy file(gguf_path("llama_scaled"));
  const GgufCopy::Tensor& factors = file.tensor("rope_freqs.weight");
  file.data.replace(factors.offset, factors.sizes.front() * sizeof(float),
                    factors.sizes.front() * sizeof(float), '\xff');
  test::write_file(folder.path() / "m.gguf", file.bytes());
  try {
    spec_from_source(*open_source(folder.path() / "m.gguf"));
    FAIL() << "factors that are NaN are taken";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.ends_with("tensor 'rope_freqs.weight': expected a number from 1e-6 to 1e9, found NaN"))
        << text;
  }
}

TEST_P(GgufRefusals, SpeakOfTheFilesKeys) {
  std::size_t refused = 0;
  for (std::size_t i = 0; i < original_.keys.size(); ++i) {
    const std::uint32_t type = original_.keys[i].type;
    std::vector<std::string> values;
    if (type == test::kGgufU32) values = {test::raw(0U), test::raw(1U), test::raw(7U), test::raw(~0U)};
    if (type == test::kGgufF32) values = {test::raw(std::nanf("")), test::raw(-1.0F), test::raw(0.0F)};
    for (const std::string& value : values) {
      GgufCopy file = original_;
      file.keys[i].value = value;
      const std::string text = refusal(file);
      SCOPED_TRACE(original_.keys[i].name);
      if (text.empty()) continue;
      ++refused;
      expect_own_words(text);
      EXPECT_NE(text.find("m.gguf: "), std::string::npos) << text;
    }
    GgufCopy file = original_;
    file.keys.erase(file.keys.begin() + static_cast<std::ptrdiff_t>(i));
    expect_own_words(refusal(file));
  }
  EXPECT_GT(refused, 8U);
}

// A matrix that lies the other way round, a vector that is too short, and one that is missing.
TEST_P(GgufRefusals, NameTheFilesTensors) {
  for (std::size_t i = 0; i < original_.tensors.size(); ++i) {
    const std::string& name = original_.tensors[i].name;
    SCOPED_TRACE(name);
    GgufCopy turned = original_;
    std::vector<std::uint64_t>& sizes = turned.tensors[i].sizes;
    if (sizes.size() == 2 && sizes[0] == sizes[1]) sizes[1] -= 1;
    if (sizes.size() == 1) sizes[0] -= 1;
    if (sizes.size() == 2) std::swap(sizes[0], sizes[1]);
    const std::string text = refusal(turned);
    expect_own_words(text);
    EXPECT_NE(text.find("'" + name + "'"), std::string::npos) << text;
    GgufCopy without = original_;
    without.tensors[i].name = "other.weight";
    const std::string missing = refusal(without);
    expect_own_words(missing);
    EXPECT_FALSE(missing.empty());
  }
}
INSTANTIATE_TEST_SUITE_P(OfFixtures, GgufRefusals, testing::ValuesIn(kGgufModels),
                         [](const auto& name) { return std::string(name.param); });

std::string refusal_of_loading(const std::string& path) {
  try {
    load_model_and_tokenizer({path}, RunConfig{}, {.needs_tokenizer = false});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(GgufRefusal, ReadsAsTheFileDoes) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "m.gguf";
  const auto refused = [&](const GgufCopy& file) {
    test::write_file(path, file.bytes());
    return refusal_of_loading(path);
  };
  GgufCopy context(gguf_path("minimal"));
  context.key("gpt2.context_length").value = test::raw(0U);
  EXPECT_EQ(refused(context),
            path + ": gpt2.context_length: expected a whole number from 1 to 4194304, found 0");
  // The one wrong tensor of a GPT-2 file is blamed, though the matrices of a folder may lie either way.
  GgufCopy up(gguf_path("minimal"));
  const auto sizes = up.tensor("blk.0.ffn_up.weight").sizes;
  up.tensor("blk.0.ffn_up.weight").sizes[1] -= 1;
  EXPECT_EQ(refused(up), fmt::format("{}: tensor 'blk.0.ffn_up.weight': expected shape [{}, {}] (by m.gguf), "
                                     "found [{}, {}]",
                                     path, sizes[1], sizes[0], sizes[1] - 1, sizes[0]));
  GgufCopy down(gguf_path("llama_scaled"));
  down.tensor("blk.1.ffn_down.weight").sizes[1] -= 1;
  EXPECT_NE(refused(down).find("tensor 'blk.1.ffn_down.weight': expected shape"), std::string::npos);
  GgufCopy missing(gguf_path("llama_scaled"));
  missing.tensor("blk.1.ffn_down.weight").name = "blk.1.other.weight";
  EXPECT_EQ(refused(missing), path + ": tensor 'blk.1.ffn_down.weight' is missing");
}

// Nothing is made up for what llama.cpp does not run without.
TEST(GgufRefusal, NamesKeysThatAreMissing) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "m.gguf";
  const auto without = [&](const std::string& key) {
    GgufCopy file(gguf_path("llama_scaled"));
    file.key(key).name = "other.key";
    test::write_file(path, file.bytes());
    return refusal_of_loading(path);
  };
  for (const std::string key : {"llama.context_length", "llama.embedding_length", "llama.block_count"})
    EXPECT_EQ(without(key), fmt::format("{}: the key '{}' is missing", path, key));
  EXPECT_EQ(without("llama.attention.layer_norm_rms_epsilon"),
            path +
                ": expected the key 'llama.attention.layer_norm_rms_epsilon' or "
                "'llama.attention.layer_norm_epsilon', found neither");
}

// Before any weight is read, with what to do about it.
TEST(GgufRefusal, NamesTypesThatCannotBeRun) {
  constexpr std::uint32_t kNvfp4 = 40;
  const test::TemporaryFolder folder;
  const std::string path = folder / "m.gguf";
  GgufCopy file(gguf_path("quantized_q4_0"));
  // NVFP4 takes as many bytes for 64 elements as Q4_0.
  file.tensor("blk.0.ffn_up.weight").type = kNvfp4;
  test::write_file(path, file.bytes());
  const std::string one = refusal_of_loading(path);
  EXPECT_NE(one.find(path + ": 1 of "), std::string::npos) << one;
  EXPECT_NE(
      one.find("(1 NVFP4; the first is 'blk.0.ffn_up.weight'): the type NVFP4 is not supported, it needs "
               "e4m3 scales"),
      std::string::npos)
      << one;
  EXPECT_NE(one.find("--allow-requantize FILE OUT.gguf Q8_0"), std::string::npos) << one;
}

// A block begins with its scale, behind which its minimum stands, if it has one.
TEST(GgufRefusal, NamesATensorWithAScaleOrAMinimumThatIsNotFinite) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "m.gguf", broken = folder / "broken.gguf";
  const char* const tensor = "blk.0.ffn_up.weight";
  for (const auto& [mix, places] : {std::pair{"Q4_0", 1U}, {"Q4_1", 2U}, {"Q5_1", 2U}, {"Q4_K_S", 2U}}) {
    write_gguf(test::demo_model().string(), path, {.mix = GgufMix::named(mix).value(), .replaces = true});
    for (unsigned place = 0; place < places; ++place) {
      SCOPED_TRACE(fmt::format("{} {}", mix, place));
      GgufCopy file(path);
      const auto at = static_cast<std::size_t>(file.tensor(tensor).offset) + 2 * place;
      file.data.replace(at, 2, std::string("\x00\x7c", 2));  // infinity
      test::write_file(broken, file.bytes());
      EXPECT_EQ(
          refusal_of_loading(broken),
          fmt::format("{}: tensor '{}': expected finite scales, found NaN or infinity", broken, tensor));
    }
  }
}

TEST(GgufRefusal, SaysThatATokenizerHasMoreTokensThanTheModel) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "m.gguf";
  GgufCopy file(gguf_path("quantized_q8_0"));
  for (const char* name : {"token_embd.weight", "output.weight"}) file.tensor(name).sizes[1] -= 1;
  test::write_file(path, file.bytes());
  const LoadedModel loaded = load_model_and_tokenizer({path}, "auto", Device{});
  bool is_said = false;
  for (const Warning& warning : loaded.warnings)
    is_said = is_said || warning.text.find(path + ": the tokenizer knows ") != std::string::npos;
  EXPECT_TRUE(is_said);
}

}  // namespace
}  // namespace assay

// A source that is no Hugging Face folder: configuration, tokenizer and weights of several formats from one
// file.
#include "assay/checkpoint/source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/base/error.h"
#include "assay/base/random.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"
#include "assay/model/stored_quantization.h"
#include "assay/session/language_model.h"
#include "assay/session/load_parts.h"
#include "assay/text/tokenizer.h"
#include "cuda_emulation/emulated_runtime.h"
#include "support/fixtures.h"
#include "support/one_file_source.h"
#include "support/random_floats.h"
#include "support/safetensors_writer.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

constexpr std::int64_t kOneVocab = 300, kOneHidden = 256, kOneMlp = 512, kOneKv = 128;

// Writes a file of random weights, and the folder that Transformers would have of the numbers they stand for.
class OneFileModel {
 public:
  OneFileModel() {
    header_["model"] = {{"architecture", "llama"},
                        {"token_count", kOneVocab},
                        {"context_length", 64},
                        {"embedding_length", kOneHidden},
                        {"feed_forward_length", kOneMlp},
                        {"block_count", 2},
                        {"head_count", 4},
                        {"head_count_kv", 2},
                        {"norm_epsilon", 1e-5},
                        {"rope_base", 10000.0},
                        {"end_token", 298},
                        {"padding_token", 7}};
    header_["tensors"] = Json::array();
    add("token_embd", "f32", {kOneVocab, kOneHidden});
    for (int layer = 0; layer < 2; ++layer) {
      const std::string block = fmt::format("blk.{}.", layer);
      const char* attention = layer == 0 ? "g4" : "k4";
      add(block + "attn_norm", "f32", {kOneHidden});
      add(block + "attn_q", attention, {kOneHidden, kOneHidden});
      add(block + "attn_k", attention, {kOneKv, kOneHidden});
      add(block + "attn_v", layer == 0 ? "k4" : attention, {kOneKv, kOneHidden});
      add(block + "attn_output", "k4", {kOneHidden, kOneHidden});
      add(block + "ffn_norm", "f32", {kOneHidden});
      add(block + "ffn_gate", "g4", {kOneMlp, kOneHidden});
      add(block + "ffn_up", layer == 0 ? "g4" : "f32", {kOneMlp, kOneHidden});
      add(block + "ffn_down", "k4", {kOneHidden, kOneMlp});
    }
    add("output_norm", "f32", {kOneHidden});
    add("output", "k4", {kOneVocab, kOneHidden});
  }
  Json& header() { return header_; }

  std::string write(const std::string& path) const {
    const std::string header = header_.dump();
    const std::uint64_t length = header.size();
    std::string file(8, '\0');
    std::memcpy(file.data(), &length, 8);
    test::write_file(path, file + header + data_);
    return path;
  }
  std::string write_folder(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    Json config = {{"tie_word_embeddings", false}};
    for (const auto& [own, theirs] : test::kOwnKeys) config[theirs] = header_["model"].at(own);
    test::write_file(folder / "config.json", config.dump());
    test::write_file(folder / "model.safetensors", test::safetensors_file(plain_));
    return folder.string();
  }

 private:
  void add(const std::string& own, const std::string& kind, std::vector<std::int64_t> shape) {
    const std::string name = own + ".weight";
    header_["tensors"].push_back({{"name", name}, {"kind", kind}, {"shape", shape}});
    const std::int64_t columns = shape.back(), rows = shape.size() == 1 ? 1 : shape.front();
    random_ = Random(++seed_);
    const std::vector<float> values =
        kind == "f32"  ? test::random_floats(static_cast<std::size_t>(rows * columns), seed_, 0.1)
        : kind == "k4" ? add_k(rows, columns)
                       : add_g(rows, columns);
    if (kind == "f32") data_ += test::float_bytes(values);
    plain_.push_back({test::transformers_name(name), "F32", std::move(shape), test::float_bytes(values)});
  }
  int below(int limit) { return static_cast<int>(random_.uniform() * limit); }
  template <typename T>
  void append(const std::vector<T>& numbers) {
    data_.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
  }
  // Codes, which it writes.
  std::vector<int> add_codes(std::int64_t count) {
    std::vector<int> codes;
    std::vector<std::uint8_t> packed;
    for (std::int64_t i = 0; i < count; ++i) codes.push_back(below(16));
    for (std::size_t i = 0; i < codes.size(); i += 2)
      packed.push_back(static_cast<std::uint8_t>(codes[i] | codes[i + 1] << 4));
    append(packed);
    return codes;
  }
  std::vector<std::uint8_t> small_numbers(std::int64_t count, int limit) {
    std::vector<std::uint8_t> all;
    for (std::int64_t i = 0; i < count; ++i) all.push_back(static_cast<std::uint8_t>(below(limit)));
    return all;
  }
  std::vector<std::uint16_t> halves(std::int64_t count, double scale) {
    std::vector<std::uint16_t> all;
    for (std::int64_t i = 0; i < count; ++i)
      all.push_back(float_to_f16(static_cast<float>(scale * (0.5 + random_.uniform()))));
    return all;
  }
  std::vector<float> add_k(std::int64_t rows, std::int64_t columns) {
    const std::int64_t count = rows * columns;
    const std::vector<int> codes = add_codes(count);
    const auto scales = small_numbers(count / 32, 64), minima = small_numbers(count / 32, 64);
    const auto scale_factors = halves(count / 256, 3e-4), minimum_factors = halves(count / 256, 2e-3);
    append(scales);
    append(minima);
    append(scale_factors);
    append(minimum_factors);
    std::vector<float> values;
    for (std::size_t i = 0; i < codes.size(); ++i)
      values.push_back(static_cast<float>(codes[i]) * static_cast<float>(scales[i / 32]) *
                           f16_to_float(scale_factors[i / 256]) -
                       static_cast<float>(minima[i / 32]) * f16_to_float(minimum_factors[i / 256]));
    return values;
  }
  std::vector<float> add_g(std::int64_t rows, std::int64_t columns) {
    const std::vector<int> codes = add_codes(rows * columns);
    const std::int64_t groups = columns / 32;
    const auto scales = halves(rows * groups, 1e-2);
    const auto zeros = small_numbers(rows * groups, 16);
    std::vector<std::int32_t> group_of;
    for (std::int64_t k = 0; k < columns; ++k)
      group_of.push_back(static_cast<std::int32_t>((k * 7 + static_cast<std::int64_t>(seed_)) % groups));
    append(scales);
    append(zeros);
    append(group_of);
    std::vector<float> values;
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const auto at =
          static_cast<std::size_t>(i / columns * groups + group_of[static_cast<std::size_t>(i % columns)]);
      values.push_back(static_cast<float>(codes[static_cast<std::size_t>(i)] - zeros[at]) *
                       f16_to_float(scales[at]));
    }
    return values;
  }

  Json header_;
  std::string data_;
  std::vector<test::WrittenTensor> plain_;
  std::uint64_t seed_ = 0;
  Random random_{0};
};

class OneFile : public testing::Test {
 protected:
  std::shared_ptr<const ModelSource> open() const {
    return std::make_shared<const test::OneFileSource>(made_.write(folder_ / "model.own"));
  }
  // The tokens and merges of a tokenizer.json, as lists.
  void add_tokens() {
    const Json file = read_json_object(with_tokenizer() / "tokenizer.json");
    Json tokens = Json::array();
    for (const auto& [token, id] : file["model"]["vocab"].items()) tokens[id.get<std::size_t>()] = token;
    made_.header()["tokens"] = tokens;
    made_.header()["merges"] = file["model"]["merges"];
  }
  static std::filesystem::path with_tokenizer() { return test::fixture_model("with_tokenizer"); }
  static LoadOptions on(Isa isa) {
    return {.shared_backend = test::cpu_backend(isa), .needs_tokenizer = false};
  }

  test::TemporaryFolder folder_;
  OneFileModel made_;
  const std::vector<TokenId> ids_ = {1, 17, 250, 3, 3, 99, 180, 42, 0, 7, 211};
};

TEST_F(OneFile, GivesTheLogitsOfTheWeightsThatItsCodesStandFor) {
  const std::string plain = made_.write_folder(folder_ / "plain");
  const auto source = open();
  std::vector<LoadOptions> places = {
      {.shared_backend = make_cuda_backend(Device{Device::Kind::cuda, 0}, cuda::make_emulated_runtime()),
       .needs_tokenizer = false}};
  for (const Isa isa : test::usable_isas()) places.push_back(on(isa));
  for (const LoadOptions& place : places) {
    RunConfig in_float32;
    in_float32.dtype = DType::f32;  // a GPU would compute the rest in float16
    const LoadedModel loaded = load_source(source, in_float32, place),
                      wanted = load_model_and_tokenizer({plain}, RunConfig{}, place);
    const std::vector<float> logits = test::all_logits(wanted.model->program(), ids_);
    EXPECT_LT(test::largest_difference(test::all_logits(loaded.model->program(), ids_), logits),
              1e-4 * test::standard_deviation_of(logits))
        << place.shared_backend->kernels();
    EXPECT_EQ(loaded.id, source->path().string());
    EXPECT_EQ(loaded.pad_token, 7);
    EXPECT_EQ(loaded.model->spec().end_tokens, std::vector<TokenId>{298});
    EXPECT_LT(loaded.model->program().memory().weights.value,
              wanted.model->program().memory().weights.value / 2);
  }
}

TEST_F(OneFile, TakesWhatASettingChangesOfEverythingElse) {
  const auto logits = [&](const RunConfig& config) {
    return test::all_logits(load_source(open(), config, on(Isa::scalar)).model->program(), ids_);
  };
  const std::vector<float> exact = logits({});
  const std::vector<float> rounded = logits({.dtype = DType::bf16});
  EXPECT_GT(test::rms_difference(rounded, exact), 0);
  EXPECT_LT(test::rms_difference(rounded, exact), 0.1 * test::standard_deviation_of(exact));
  EXPECT_THROW(logits({.precision = Preset::nf4}), Error);
}

TEST_F(OneFile, ModulesHaveTheFormatsOfTheirTensors) {
  const auto source = open();
  const ModelSpec spec = spec_from_source(*source);
  EXPECT_EQ(spec.layers, 2);
  const std::optional<Precision> stored = stored_precision(*source, spec);
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->name, name_of(formats::kQ4K) + " + " + name_of(formats::kInt4G32) + " (as stored)");
  EXPECT_EQ(stored->weights, formats::kQ4K);
  EXPECT_EQ(stored->format_of("model.layers.0.self_attn.q_proj"), formats::kInt4G32);
  EXPECT_EQ(stored->format_of("model.layers.1.self_attn.q_proj"), formats::kQ4K);
  EXPECT_EQ(stored->format_of("model.layers.1.mlp.up_proj"), formats::kFloat32);
  EXPECT_EQ(stored->skipped_modules, std::vector<std::string>{"model.layers.1.mlp.up_proj"});
  EXPECT_TRUE(stored->is_lm_head_stored);
  EXPECT_EQ(stored->lm_head, formats::kQ4K);
  for (const TensorUse use : tensor_uses(spec, *stored, *source)) EXPECT_EQ(use, TensorUse::weight);
  // Modules that share their inputs, but not the groups of them, are multiplied one by one.
  for (const WeightSpec& weight : plan_forward(spec, *stored).weights)
    EXPECT_TRUE(!weight.format.has_input_groups || weight.slices.size() < 2) << weight.name;
}

TEST_F(OneFile, OnlyTextNeedsATokenizer) {
  EXPECT_THROW(load_source(open(), {}, {.shared_backend = test::cpu_backend(Isa::scalar)}), Error);
  const LanguageModel without(load_source(open(), {}, on(Isa::scalar)));
  EXPECT_FALSE(without.has_tokenizer());
  EXPECT_EQ(without.generate(ids_, {.max_new_tokens = 2, .stops_at_end = false}).ids.size(), 2U);
  try {
    without.score("the text");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              (folder_ / "model.own") +
                  ": the model has no tokenizer, which scoring a text needs: expected token ids");
  }

  add_tokens();
  const LanguageModel with(load_source(open(), {}, {.shared_backend = test::cpu_backend(Isa::scalar)}));
  const Tokenizer wanted = Tokenizer::load(with_tokenizer());
  const std::string text = "the rain in the garden";
  EXPECT_EQ(with.ids_of(text), wanted.encode(text));
  EXPECT_EQ(with.text_of(with.ids_of(text)), text);
  EXPECT_EQ(with.loaded().tokenizer->end_of_text(), 298);
  EXPECT_EQ(with.loaded().tokenizer->source(), "tokens of model.own");
}

TEST_F(OneFile, CompanionsAreMadeOfItsContent) {
  add_tokens();
  const auto source = open();
  std::vector<std::string> names;
  for (const auto& [name, content, file] : source->companions()) {
    EXPECT_TRUE(file.empty());
    names.push_back(name);
    test::write_file(folder_ / name, content);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"generation_config.json", "tokenizer.json", "tokenizer_config.json"}));
  const std::string text = "the rain in the garden";
  EXPECT_EQ(Tokenizer::load(folder_.path()).encode(text),
            Tokenizer::from_files(source->tokenizer_files()).encode(text));
}

TEST_F(OneFile, MessagesNameItsFileAndItIsHashedWhole) {
  const std::string before = open()->content_hash();
  made_.header()["model"]["feed_forward_length"] = kOneMlp / 2;
  const auto source = open();
  EXPECT_NE(source->content_hash(), before);
  EXPECT_EQ(source->weight_file_bytes(), std::filesystem::file_size(source->path()));
  try {
    load_source(source, {}, on(Isa::scalar));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).rfind(source->path().string() + ": tensor ", 0), 0U) << error.what();
    EXPECT_NE(std::string(error.what()).find("expected shape"), std::string::npos) << error.what();
  }
}

TEST(OpenSource, GivesAFolderAndRefusesAFile) {
  const std::string model = test::demo_model().string();
  EXPECT_EQ(open_source(locate_model(model))->config_name(), "config.json");
  EXPECT_TRUE(open_source(model)->has_tokenizer());
  EXPECT_FALSE(open_source(test::fixture_model("base"))->has_tokenizer());
  const std::string file = model + "/config.json";
  for (const auto& open : {+[](const std::string& path) { open_source(locate_model(path)); },
                           +[](const std::string& path) { tokenizer_files_at(locate_model(path)); }}) {
    try {
      open(file);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                file + ": expected a model folder or a GGUF file, found another file");
    }
  }
}

}  // namespace
}  // namespace assay

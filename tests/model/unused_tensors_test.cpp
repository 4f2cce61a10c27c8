// Every tensor of a folder is used, is known to be harmless, or is an error.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/checkpoint/safetensors_checkpoint.h"
#include "assay/model/families/families.h"
#include "assay/model/model.h"
#include "assay/model/stored_quantization.h"
#include "assay/quantize/quantize.h"
#include "support/fixtures.h"
#include "support/program.h"
#include "support/safetensors_copy.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

// Its warnings, or the error.
std::string said_of_tensors(const fs::path& path) {
  try {
    const ModelFolder folder(path);
    const ModelSpec spec = spec_from_source(folder);
    const auto warnings = check_tensors(spec, stored_precision(folder, spec).value_or(Precision{}), folder);
    return warnings.empty() ? "nothing" : "warning: " + warnings.front();
  } catch (const Error& error) {
    return std::string("error: ") + error.what();
  }
}

void expect_said(const std::string& said, std::initializer_list<std::string> words) {
  for (const std::string& word : words)
    EXPECT_NE(said.find(word), std::string::npos) << "not said: " << word << "\nsaid: " << said;
  EXPECT_EQ(said.find('\n'), std::string::npos);
}

class UnusedTensors : public testing::Test {
 protected:
  std::string said() { return said_of_tensors(model_.write(folder_.path())); }
  void expect_refused(std::initializer_list<std::string> words) {
    const std::string sentence = said();
    expect_said(sentence, words);
    EXPECT_TRUE(sentence.starts_with("error: "));
  }
  void add(const std::string& name, std::vector<std::int64_t> shape = {2}) {
    model_.tensors.push_back(test::float_tensor(name, std::move(shape)));
  }
  // A second layer like the first.
  void add_layer() {
    const std::vector<test::WrittenTensor> before = model_.tensors;
    for (test::WrittenTensor tensor : before)
      if (const auto at = tensor.name.find("h.0."); at != std::string::npos) {
        tensor.name.replace(at, 4, "h.1.");
        model_.tensors.push_back(tensor);
      }
  }

  test::TemporaryFolder folder_;
  test::TinyModel model_;
};

TEST_F(UnusedTensors, OfASoundFolderThereAreNone) {
  EXPECT_EQ(said(), "nothing");
  model_ = test::tiny_llama();
  EXPECT_EQ(said(), "nothing");
}

TEST_F(UnusedTensors, ALayerMoreThanTheConfigurationHas) {
  add_layer();
  expect_refused({folder_.path().string(), "12 tensors of the file are not used", "'transformer.h.1.",
                  "config.json", "expected a configuration that uses every weight"});
  model_.config["n_layer"] = 2;
  EXPECT_EQ(said(), "nothing");
}

TEST_F(UnusedTensors, AnUnknownTensor) {
  add("score.weight");
  expect_refused({"1 tensor of the file is not used", "'score.weight'"});
}

// One sentence on one line, whatever the name is.
TEST_F(UnusedTensors, AnUnknownTensorWithAStrangeName) {
  add("odd\n\x1b[31m");
  const std::string sentence = said();
  EXPECT_TRUE(sentence.starts_with("error: "));
  EXPECT_EQ(sentence.find_first_of("\n\x1b"), std::string::npos);
}

TEST_F(UnusedTensors, WithAndWithoutThePrefix) {
  for (const test::WrittenTensor& tensor : std::vector(model_.tensors))
    if (tensor.name == "transformer.wte.weight") add("wte.weight", tensor.shape);
  expect_refused({"1 tensor of the file is not used", "'wte.weight'"});
}

TEST_F(UnusedTensors, ATiedHeadIsTheEmbedding) {
  test::WrittenTensor head = model_.tensor("transformer.wte.weight");
  head.name = "lm_head.weight";
  model_.tensors.push_back(head);
  EXPECT_EQ(said(), "nothing");
  model_.tensors.back().bytes[5] ^= 1;
  expect_refused({"model.safetensors: tensor 'lm_head.weight' differs from 'transformer.wte.weight'",
                  "tie_word_embeddings"});
  model_.tensors.back() = test::float_tensor("lm_head.weight", {3, 4});
  expect_refused({"lm_head.weight", "differs"});
  model_.tensors.back() = head;
  model_.config["tie_word_embeddings"] = false;
  EXPECT_EQ(said(), "nothing");
}

// Counts how often a tensor is looked for.
class CountingCheckpoint : public Checkpoint {
 public:
  CountingCheckpoint(std::unique_ptr<const Checkpoint> of, std::map<std::string, int>& looks)
      : of_(std::move(of)), looks_(looks) {}
  CheckpointTensor find(const std::string& name) const override {
    ++looks_[name];
    return of_->find(name);
  }
  std::vector<CheckpointTensor> tensors() const override { return of_->tensors(); }
  std::vector<fs::path> files() const override { return of_->files(); }
  std::uint64_t file_bytes() const override { return of_->file_bytes(); }
  void read_floats(const CheckpointTensor& tensor, std::int64_t first, std::int64_t count,
                   float* out) const override {
    of_->read_floats(tensor, first, count, out);
  }
  void read_bytes(const CheckpointTensor& tensor, std::uint64_t first,
                  std::span<std::byte> out) const override {
    of_->read_bytes(tensor, first, out);
  }

 private:
  std::unique_ptr<const Checkpoint> of_;
  std::map<std::string, int>& looks_;
};

// A load checks each tensor once, and reads it.
TEST_F(UnusedTensors, AreLookedForOnceAsAModelLoads) {
  const fs::path path = model_.write(folder_.path());
  std::map<std::string, int> looks;
  const auto folder = std::make_shared<const ModelFolder>(
      path, std::make_unique<CountingCheckpoint>(SafetensorsCheckpoint::open_file(path / "model.safetensors"),
                                                 looks));
  const Model model = Model::load(folder, test::cpu_backend(best_usable_isa()), Precision{});
  for (const char* norm : {"transformer.ln_f.weight", "transformer.h.0.ln_1.bias"})
    EXPECT_EQ(looks[norm], 2) << norm << ": once to check it, once to read it";
}

TEST_F(UnusedTensors, ATiedHeadOfLlama) {
  model_ = test::tiny_llama();
  model_.config["tie_word_embeddings"] = true;
  expect_refused({"lm_head.weight", "differs from 'model.embed_tokens.weight'"});
  model_.tensor("lm_head.weight").bytes = model_.tensor("model.embed_tokens.weight").bytes;
  EXPECT_EQ(said(), "nothing");
}

TEST_F(UnusedTensors, BuffersAreAWarning) {
  add("transformer.h.0.attn.bias", {1, 1, 4, 4});
  EXPECT_EQ(said(), "warning: 1 buffer of the file is not needed, the first is 'transformer.h.0.attn.bias'");
  add("transformer.h.0.attn.masked_bias");
  EXPECT_EQ(said(),
            "warning: 2 buffers of the file are not needed, the first is 'transformer.h.0.attn.bias'");
  const Model model = Model::load(std::make_shared<const ModelFolder>(folder_.path()),
                                  test::cpu_backend(Isa::scalar, 1), Precision{});
  ASSERT_EQ(model.warnings().size(), 1u);
  EXPECT_NE(model.warnings().front().find("2 buffers"), std::string::npos);
  model_ = test::tiny_llama();
  add("model.layers.0.self_attn.rotary_emb.inv_freq");
  expect_said(said(), {"warning: 1 buffer", "inv_freq"});
  add("transformer.h.0.attn.bias");  // GPT-2's
  expect_refused({"'transformer.h.0.attn.bias'"});
}

TEST_F(UnusedTensors, BiasesThatTheConfigurationDenies) {
  model_ = test::tiny_llama();
  add("model.layers.0.self_attn.q_proj.bias", {8});
  expect_refused({"'model.layers.0.self_attn.q_proj.bias'"});
}

// For a folder without quantization_config nothing belongs to a quantized weight.
TEST_F(UnusedTensors, NamesOfQuantizedFoldersInAPlainOne) {
  for (const char* suffix : {"c_attn.SCB", "c_attn.weight.absmax", "c_attn.weight_format",
                             "c_attn.weight_absmax", "c_attn.input_scale", "c_attn.weight.quant_map"}) {
    model_ = test::TinyModel();
    add(std::string("transformer.h.0.attn.") + suffix);
    expect_refused({"1 tensor of the file is not used", suffix});
  }
}

TEST_F(UnusedTensors, OfQuantizedFolders) {
  for (const char* precision : {"nf4", "fp4", "nf4-dq", "fp4-dq", "llm-int8"})
    EXPECT_EQ(said_of_tensors(test::fixture("quantized") / precision), "nothing") << precision;
  for (const auto& [precision, smoothing] :
       {std::pair{"int8-dynamic", -1.0}, {"int8-dynamic", 0.5}, {"int8-static", -1.0}, {"nf4", -1.0}}) {
    const fs::path out = folder_.path() / "out";
    QuantizeOptions options{.config = run_config_from_text(precision), .replaces = true};
    if (smoothing >= 0) options.config.smooth_quant = smoothing;
    if (std::string(precision) == "int8-static" || smoothing >= 0) options.config.calibration = test::kText;
    quantize_model(test::kModel, out, options);
    EXPECT_EQ(said_of_tensors(out), "nothing") << precision << " " << smoothing;
  }
}

// For another format than the weights are in.
TEST_F(UnusedTensors, BesideQuantizedWeights) {
  const fs::path nf4 = test::fixture("quantized") / "nf4", out = folder_.path() / "nf4";
  fs::copy(nf4, out, fs::copy_options::recursive);
  const std::string module = "transformer.h.0.attn.c_attn";
  for (const std::string& name :
       {module + ".weight_format", module + ".weight.scales", module + ".input_scale"}) {
    test::TensorList list(nf4 / "model.safetensors");
    list[module + ".weight.absmax"];  // it has such a module
    list.tensors.push_back(test::float_tensor(name, {1}));
    test::write_file(out / "model.safetensors", list.file());
    expect_said(said_of_tensors(out), {"error: ", "'" + name + "'"});
  }
}

// The factors were multiplied into the weights: without them the model is another.
TEST_F(UnusedTensors, SmoothingThatTheConfigurationDenies) {
  const fs::path out = folder_.path() / "out";
  const QuantizeOptions options{
      .config = {.precision = Preset::int8_dynamic, .smooth_quant = 0.5, .calibration = test::kText}};
  quantize_model(test::kModel, out, options);
  nlohmann::json config = nlohmann::json::parse(test::read_file(out / "config.json"));
  config["quantization_config"]["smooth_quant"] = nullptr;
  test::write_file(out / "config.json", config.dump());
  expect_said(said_of_tensors(out), {"error: ", "input_smoothing"});
}

TEST_F(UnusedTensors, EveryCommandRefusesThem) {
  const fs::path model = folder_.path() / "model";
  test::copy_model_fixture("with_tokenizer", model);
  nlohmann::json config = nlohmann::json::parse(test::read_file(model / "config.json"));
  config["n_layer"] = 1;
  test::write_file(model / "config.json", config.dump());
  const std::string out = folder_ / "out";
  for (const std::vector<std::string>& command : {std::vector<std::string>{"inspect", model.string()},
                                                  {"generate", model.string(), "--ids", "1,2", "-n", "2"},
                                                  {"perplexity", model.string(), test::kText},
                                                  {"run", model.string(), "-o", out, "--skip", "noise"},
                                                  {"quantize", model.string(), out, "--precision", "nf4"}}) {
    SCOPED_TRACE(command.front());
    test::expect_failure(test::run_program(command), 1,
                         {"12 tensors of the file are not used", "'transformer.h.1.attn.c_attn.bias'"});
  }
  EXPECT_FALSE(fs::exists(fs::path(out) / "model.safetensors"));
}

}  // namespace
}  // namespace assay

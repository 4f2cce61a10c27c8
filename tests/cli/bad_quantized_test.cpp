// Quantized checkpoints that are incomplete or say what cannot be: one sentence each that names the tensor.
#include <cstring>
#include <limits>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/random.h"
#include "assay/session/load.h"
#include "support/paths.h"
#include "support/program.h"
#include "support/safetensors_copy.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace assay::test {
namespace {

const std::string kModule = "transformer.h.1.attn.c_proj", kWeight = kModule + ".weight";

std::filesystem::path stored(const std::string& precision) {
  return source_folder() + "/tests/fixtures/quantized/" + precision;
}

class CliBadQuantized : public testing::Test {
 protected:
  TemporaryFolder folder_;
  const std::string model_ = folder_ / "model";

  // The fixture with other tensors.
  void write(const std::string& precision, const TensorList& tensors) const {
    std::filesystem::create_directories(model_);
    write_file(model_ + "/config.json", read_file(stored(precision) / "config.json"));
    write_file(model_ + "/model.safetensors", tensors.file());
  }
  void expect_refused(std::initializer_list<std::string> words) const {
    expect_failure(run_program({"generate", model_, "--ids", "1,2", "-n", "2"}), 1, words);
    expect_failure(run_program({"logits", model_, "--ids", "1", "-o",
                                (std::filesystem::temp_directory_path() / "assay-never.npy").string()}),
                   1, words);
  }
  template <typename Spoil>
  void spoil(const std::string& precision, std::initializer_list<std::string> words,
             const Spoil& change) const {
    SCOPED_TRACE(precision);
    TensorList tensors(stored(precision) / "model.safetensors");
    change(tensors);
    write(precision, tensors);
    expect_refused(words);
  }
};

void put_floats(WrittenTensor& tensor, std::size_t at, std::initializer_list<float> values) {
  std::memcpy(tensor.bytes.data() + at * sizeof(float), std::data(values), values.size() * sizeof(float));
}
void set_text(WrittenTensor& tensor, const std::string& text) {
  tensor.bytes = text;
  tensor.shape = {static_cast<std::int64_t>(text.size())};
}
// Replaces a part of the JSON of the state.
void edit_state(TensorList& tensors, const std::string& type, const std::string& from,
                const std::string& to) {
  WrittenTensor& state = tensors[kWeight + ".quant_state.bitsandbytes__" + type];
  std::string text = state.bytes;
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("the state has no " + from);
  set_text(state, text.replace(at, from.size(), to));
}

TEST_F(CliBadQuantized, MissingParts) {
  for (const char* part : {".absmax", ".quant_map", ".quant_state.bitsandbytes__nf4"})
    spoil("nf4", {"model.safetensors", kWeight + part, "is missing"},
          [&](TensorList& tensors) { tensors.remove(kWeight + part); });
  for (const char* part : {".nested_absmax", ".nested_quant_map"})
    spoil("fp4-dq", {"model.safetensors", kWeight + part, "is missing"},
          [&](TensorList& tensors) { tensors.remove(kWeight + part); });
  spoil("llm-int8", {kModule + ".SCB", "is missing"},
        [](TensorList& tensors) { tensors.remove(kModule + ".SCB"); });
  spoil("nf4", {kWeight, "is missing"}, [](TensorList& tensors) { tensors.remove(kWeight); });
}

TEST_F(CliBadQuantized, NestedStateIncomplete) {
  spoil("nf4-dq", {kWeight, "nested_offset", "missing"}, [](TensorList& tensors) {
    WrittenTensor& state = tensors[kWeight + ".quant_state.bitsandbytes__nf4"];
    set_text(state, state.bytes.substr(0, state.bytes.find(", \"nested_offset\"")) + "}");
  });
  spoil("nf4-dq", {kWeight, "nested state is incomplete"}, [](TensorList& tensors) {
    WrittenTensor& state = tensors[kWeight + ".quant_state.bitsandbytes__nf4"];
    set_text(state, state.bytes.substr(0, state.bytes.find(", \"nested_blocksize\"")) + "}");
  });
  spoil("nf4-dq", {kWeight + ".nested_quant_map", "256", "[255]"}, [](TensorList& tensors) {
    WrittenTensor& map = tensors[kWeight + ".nested_quant_map"];
    map.shape = {255};
    map.bytes.resize(255 * 4);
  });
  spoil("nf4-dq", {kWeight, "nested_blocksize", "256", "128"}, [](TensorList& tensors) {
    edit_state(tensors, "nf4", "\"nested_blocksize\": 256", "\"nested_blocksize\": 128");
  });
  spoil("nf4-dq", {kWeight, "nested_offset", "finite"}, [](TensorList& tensors) {
    edit_state(tensors, "nf4", "\"nested_offset\": ", "\"nested_offset\": 1e300, \"more\": ");
  });
}

TEST_F(CliBadQuantized, StatesThatLie) {
  // bitsandbytes knows such blocks, and they have other scales than the file holds.
  spoil("nf4", {kWeight + ".absmax", "expected 25 numbers", "[13]"},
        [](TensorList& tensors) { edit_state(tensors, "nf4", "\"blocksize\": 64", "\"blocksize\": 32"); });
  for (const char* block : {"16", "48", "8192", "4611686018427387904"})
    spoil("nf4", {kWeight, "blocksize", block}, [&](TensorList& tensors) {
      edit_state(tensors, "nf4", "\"blocksize\": 64", std::string("\"blocksize\": ") + block);
    });
  spoil("nf4", {kWeight, "blocksize", "-64"},
        [](TensorList& tensors) { edit_state(tensors, "nf4", "\"blocksize\": 64", "\"blocksize\": -64"); });
  spoil("nf4", {kWeight, "quant_type", "nf3"},
        [](TensorList& tensors) { edit_state(tensors, "nf4", "\"nf4\"", "\"nf3\""); });
  spoil("nf4", {kWeight, "unknown quant_type"}, [](TensorList& tensors) {
    tensors[kWeight + ".quant_state.bitsandbytes__nf4"].name = kWeight + ".quant_state.bitsandbytes__nf3";
  });
  spoil("nf4", {kWeight, "shape", "[28, 28]", "[28, 29]"},
        [](TensorList& tensors) { edit_state(tensors, "nf4", "[28, 28]", "[28, 29]"); });
  spoil("nf4", {kWeight, "shape"},
        [](TensorList& tensors) { edit_state(tensors, "nf4", "[28, 28]", "[28, -28]"); });
  spoil("nf4", {kWeight, "not valid JSON"}, [](TensorList& tensors) {
    set_text(tensors[kWeight + ".quant_state.bitsandbytes__nf4"], "\x80\x04pickled\n");
  });
  spoil("nf4", {kWeight, "not valid JSON"},
        [](TensorList& tensors) { set_text(tensors[kWeight + ".quant_state.bitsandbytes__nf4"], ""); });
  spoil("nf4", {kWeight, "'quant_type' is missing"},
        [](TensorList& tensors) { set_text(tensors[kWeight + ".quant_state.bitsandbytes__nf4"], "{}"); });
  spoil("nf4", {kWeight, "4096 bytes"}, [](TensorList& tensors) {
    set_text(tensors[kWeight + ".quant_state.bitsandbytes__nf4"], std::string(1'000'000, '['));
  });
  spoil("nf4", {kWeight, "second quant_state"}, [](TensorList& tensors) {
    WrittenTensor copy = tensors[kWeight + ".quant_state.bitsandbytes__nf4"];
    copy.name = kWeight + ".quant_state.bitsandbytes__fp4";
    tensors.tensors.push_back(copy);
  });
}

TEST_F(CliBadQuantized, SizesThatDoNotFit) {
  spoil("nf4", {kWeight, "392 bytes of codes", "391"}, [](TensorList& tensors) {
    tensors[kWeight].shape = {391, 1};
    tensors[kWeight].bytes.resize(391);
  });
  spoil("nf4", {kWeight + ".absmax", "13 numbers", "[12]"}, [](TensorList& tensors) {
    tensors[kWeight + ".absmax"].shape = {12};
    tensors[kWeight + ".absmax"].bytes.resize(48);
  });
  spoil("nf4-dq", {kWeight + ".absmax", "13 codes of scales", "F32"},
        [](TensorList& tensors) { tensors[kWeight + ".absmax"] = float_tensor(kWeight + ".absmax", {13}); });
  spoil("llm-int8", {kModule + ".SCB", "28 numbers", "[4, 5]"}, [](TensorList& tensors) {
    tensors[kModule + ".SCB"] = float_tensor(kModule + ".SCB", {4, 5});
  });
  spoil("llm-int8", {kWeight, "I8 [28, 28]", "[14, 56]"}, [](TensorList& tensors) {
    tensors[kWeight].shape = {14, 56};
  });
  spoil("llm-int8", {kWeight, "I8 [28, 28]", "U8"},
        [](TensorList& tensors) { tensors[kWeight].dtype = "U8"; });
}

TEST_F(CliBadQuantized, CodesBeyondTheTable) {
  spoil("nf4", {kWeight + ".quant_map", "code 3", "not the nf4 table"},
        [](TensorList& tensors) { put_floats(tensors[kWeight + ".quant_map"], 3, {0.5F}); });
  spoil("nf4", {kWeight + ".quant_map", "code 15", "not the nf4 table"},
        [](TensorList& tensors) { put_floats(tensors[kWeight + ".quant_map"], 15, {0.5F}); });
  spoil("fp4", {kWeight + ".quant_map", "not the fp4 table"}, [](TensorList& tensors) {
    put_floats(tensors[kWeight + ".quant_map"], 1, {0.0052F});  // a rounded copy of 1 / 192
  });
  spoil("nf4", {kWeight + ".quant_map", "16 numbers", "[15]"}, [](TensorList& tensors) {
    tensors[kWeight + ".quant_map"].shape = {15};
    tensors[kWeight + ".quant_map"].bytes.resize(60);
  });
  spoil("llm-int8", {kWeight, "-128", "beyond"},
        [](TensorList& tensors) { tensors[kWeight].bytes[17] = '\x80'; });
  spoil("llm-int8", {kModule + ".weight_format", "expected one U8 of 0", "tiled layouts"},
        [](TensorList& tensors) { tensors[kModule + ".weight_format"].bytes = "\x01"; });
}

TEST_F(CliBadQuantized, ScalesThatAreNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  spoil("nf4", {kWeight + ".absmax", "finite", "NaN"},
        [&](TensorList& tensors) { put_floats(tensors[kWeight + ".absmax"], 5, {nan}); });
  spoil("nf4", {kWeight + ".absmax", "magnitudes", "negative"},
        [&](TensorList& tensors) { put_floats(tensors[kWeight + ".absmax"], 5, {-1}); });
  spoil("nf4-dq", {kWeight + ".nested_absmax", "magnitudes"},
        [&](TensorList& tensors) { put_floats(tensors[kWeight + ".nested_absmax"], 0, {-1}); });
  spoil("nf4-dq", {kWeight + ".nested_absmax", "finite"},
        [&](TensorList& tensors) { put_floats(tensors[kWeight + ".nested_absmax"], 0, {inf}); });
  spoil("nf4-dq", {kWeight + ".nested_quant_map", "finite"},
        [&](TensorList& tensors) { put_floats(tensors[kWeight + ".nested_quant_map"], 7, {nan}); });
  spoil("nf4-dq", {kWeight + ".absmax", "not finite"}, [](TensorList& tensors) {
    const float largest = std::numeric_limits<float>::max();
    put_floats(tensors[kWeight + ".nested_absmax"], 0, {largest});
    for (std::size_t i = 0; i < 256; ++i) put_floats(tensors[kWeight + ".nested_quant_map"], i, {2});
  });
  spoil("llm-int8", {kModule + ".SCB", "finite"},
        [&](TensorList& tensors) { put_floats(tensors[kModule + ".SCB"], 27, {-inf}); });
}

TEST_F(CliBadQuantized, ConfigurationsThatPromiseSomethingElse) {
  const auto write_config = [&](const std::string& source, const nlohmann::json& quantization) {
    std::filesystem::remove_all(model_);
    std::filesystem::copy(source, model_);
    auto config = nlohmann::json::parse(read_file(model_ + "/config.json"));
    config["quantization_config"] = quantization;
    write_file(model_ + "/config.json", config.dump());
  };
  const std::string plain = model_fixture("n_inner");
  write_config(plain, {{"quant_method", "gptq"}, {"bits", 4}});
  expect_refused({"config.json", "gptq", "bitsandbytes", "delete quantization_config"});
  write_config(plain, {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}});
  expect_refused({"config.json", "no weight", "stored quantized"});
  write_config(plain, {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}, {"load_in_8bit", true}});
  expect_refused({"config.json", "load_in_4bit", "load_in_8bit", "both"});
  write_config(plain, "nf4");
  expect_refused({"config.json", "quantization_config", "an object"});
  write_config(stored("llm-int8"), {{"quant_method", "bitsandbytes"}, {"llm_int8_threshold", -1}});
  expect_refused({"config.json", "llm_int8_threshold"});
  write_config(stored("nf4"), nullptr);  // codes without a configuration are no weights
  expect_refused({"F32, F16 or BF16", "U8"});
}

// Codes in another storage type, scales in 16 bits, a file without weight_format: all have been written.
TEST_F(CliBadQuantized, OldAndOtherFormsAreRead) {
  TensorList four(stored("nf4") / "model.safetensors");
  for (WrittenTensor& tensor : four.tensors)
    if (tensor.name.ends_with("c_proj.weight") && tensor.bytes.size() % 4 == 0) {
      tensor.dtype = "F32";
      tensor.shape = {static_cast<std::int64_t>(tensor.bytes.size() / 4), 1};
    }
  write("nf4", four);
  const std::vector<std::string> arguments{"logits", model_, "--ids", "1,2", "-o", folder_ / "a.npy"};
  expect_success(run_program(arguments));
  expect_success(run_program({"logits", stored("nf4").string(), "--ids", "1,2", "-o", folder_ / "b.npy"}));
  EXPECT_TRUE(read_file(folder_ / "a.npy") == read_file(folder_ / "b.npy"));
  TensorList eight(stored("llm-int8") / "model.safetensors");
  std::erase_if(eight.tensors, [](const WrittenTensor& t) { return t.name.ends_with("weight_format"); });
  write("llm-int8", eight);
  expect_success(run_program(arguments));
  const std::string logits = read_file(folder_ / "a.npy");
  auto config = nlohmann::json::parse(read_file(model_ + "/config.json"));
  config["quantization_config"]["llm_int8_threshold"] = 0.01;  // nearly every input is an outlier then
  write_file(model_ + "/config.json", config.dump());
  expect_success(run_program(arguments));
  EXPECT_FALSE(read_file(folder_ / "a.npy") == logits);
}

// int8 of our own: what it keeps of its calibration, missing or impossible.
class CliBadInt8 : public CliBadQuantized {
 protected:
  const std::string sound_ = folder_ / "sound";
  const std::string module_ = "transformer.h.0.attn.c_proj";

  void SetUp() override { make_sound(model_fixture("with_tokenizer")); }
  void make_sound(const std::string& source) const {
    std::filesystem::remove_all(sound_);
    expect_success(
        run_program({"quantize", source, sound_, "--precision", "int8-static", "--smooth-quant=0.5"}));
    std::filesystem::create_directories(model_);
    write_file(model_ + "/config.json", read_file(sound_ + "/config.json"));
  }
  template <typename Spoil>
  void spoil(std::initializer_list<std::string> words, const Spoil& change) const {
    TensorList tensors(sound_ + "/model.safetensors");
    change(tensors);
    write_file(model_ + "/model.safetensors", tensors.file());
    expect_refused(words);
  }
};

TEST_F(CliBadInt8, MissingParts) {
  for (const char* part :
       {".weight_absmax", ".input_scale", ".input_zero_point", ".input_clipped_share", ".input_smoothing"})
    spoil({"model.safetensors", module_ + part, "is missing"},
          [&](TensorList& tensors) { tensors.remove(module_ + part); });
  spoil({module_ + ".weight", "is missing"},
        [&](TensorList& tensors) { tensors.remove(module_ + ".weight"); });
}

TEST_F(CliBadInt8, WrongShapesAndTypes) {
  const auto reshape = [&](const char* part, std::vector<std::int64_t> shape, std::size_t bytes) {
    return [this, part, shape, bytes](TensorList& tensors) {
      tensors[module_ + part].shape = shape;
      tensors[module_ + part].bytes.resize(bytes);
    };
  };
  spoil({module_ + ".input_scale", "1 numbers", "[2]"}, reshape(".input_scale", {2}, 8));
  spoil({module_ + ".input_zero_point", "one U8", "[3]"}, reshape(".input_zero_point", {3}, 3));
  spoil({module_ + ".input_smoothing", "numbers", "[3]"}, reshape(".input_smoothing", {3}, 12));
  spoil({module_ + ".weight_absmax", "numbers", "[1]"}, reshape(".weight_absmax", {1}, 4));
  spoil({module_ + ".weight", "I8", "[1, 1]"}, reshape(".weight", {1, 1}, 1));
  spoil({module_ + ".input_scale", "F32", "I32"},
        [&](TensorList& tensors) { tensors[module_ + ".input_scale"].dtype = "I32"; });
  spoil({module_ + ".input_zero_point", "U8", "I8"},
        [&](TensorList& tensors) { tensors[module_ + ".input_zero_point"].dtype = "I8"; });
  spoil({module_ + ".weight", "-128"},
        [&](TensorList& tensors) { tensors[module_ + ".weight"].bytes[3] = static_cast<char>(0x80); });
}

TEST_F(CliBadInt8, NumbersThatCannotBe) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const auto put = [&](const char* part, float value) {
    return [this, part, value](TensorList& tensors) { put_floats(tensors[module_ + part], 0, {value}); };
  };
  for (const char* part : {".input_scale", ".input_clipped_share", ".input_smoothing", ".weight_absmax"})
    for (const float value : {nan, inf}) spoil({module_ + part, "finite"}, put(part, value));
  for (const float value : {0.0F, -1.0F, 1e-42F})
    spoil({module_ + ".input_scale", "above 0"}, put(".input_scale", value));
  for (const float value : {0.0F, -2.0F})
    spoil({module_ + ".input_smoothing", "above 0"}, put(".input_smoothing", value));
  spoil({module_ + ".weight_absmax", "magnitudes"}, put(".weight_absmax", -1.0F));
  spoil({module_ + ".input_clipped_share", "0 to 1", "1.5"}, put(".input_clipped_share", 1.5F));
}

// Queries, keys and values are products of the same activations: these have one code and one set of factors.
TEST_F(CliBadInt8, SharedActivationsThatDiffer) {
  const std::string source = folder_ / "llama", attention = "model.layers.0.self_attn.";
  tiny_llama(300).write(source);
  for (const char* name : {"/tokenizer.json", "/tokenizer_config.json"})
    write_file(source + name, read_file(model_fixture("with_tokenizer") + name));
  make_sound(source);
  const auto refuse = [&](const char* part, const auto& change) {
    SCOPED_TRACE(part);
    spoil({"model.safetensors", attention + "k_proj.weight", "input scale and factors",
           attention + "q_proj.weight", "shares"},
          [&](TensorList& tensors) { change(tensors[attention + "k_proj" + part]); });
  };
  refuse(".input_scale", [](WrittenTensor& tensor) { put_floats(tensor, 0, {3}); });
  refuse(".input_zero_point", [](WrittenTensor& tensor) { ++tensor.bytes[0]; });
  refuse(".input_smoothing", [](WrittenTensor& tensor) { put_floats(tensor, 7, {3}); });
}

TEST_F(CliBadInt8, ConfigurationsThatPromiseSomethingElse) {
  write_file(model_ + "/model.safetensors", read_file(sound_ + "/model.safetensors"));
  const auto expect = [&](const char* key, const nlohmann::json& value,
                          std::initializer_list<std::string> words) {
    SCOPED_TRACE(key);
    auto config = nlohmann::json::parse(read_file(sound_ + "/config.json"));
    config["quantization_config"][key] = value;
    write_file(model_ + "/config.json", config.dump());
    expect_refused(words);
  };
  expect("precision", "nf4", {"config.json", "int8-dynamic or int8-static", "nf4"});
  expect("precision", nullptr, {"config.json", "precision", "missing"});
  expect("calibrator", "best", {"config.json", "minmax, percentile or entropy", "best"});
  expect("calibrator", nullptr, {"config.json", "calibrator", "missing"});
  expect("smooth_quant", 2, {"config.json", "smooth_quant", "0 to 1"});
  expect("smooth_quant", "much", {"config.json", "smooth_quant"});
  std::filesystem::copy(model_fixture("with_tokenizer") + "/model.safetensors", model_ + "/model.safetensors",
                        std::filesystem::copy_options::overwrite_existing);
  write_file(model_ + "/config.json", read_file(sound_ + "/config.json"));
  expect_refused({"config.json", "no weight", "stored quantized"});
}

// Whatever the bytes: an error or a model, never a crash.
TEST(BadQuantized, SpoiledBytesNeverCrash) {
  TemporaryFolder folder, own;
  Random random(7);
  const std::string of_own = own / "int8-static";
  expect_success(run_program({"quantize", model_fixture("with_tokenizer"), of_own, "--precision",
                              "int8-static", "--smooth-quant=0.5"}));
  for (const std::filesystem::path& model :
       std::vector<std::filesystem::path>{stored("nf4"), stored("fp4-dq"), stored("llm-int8"), of_own}) {
    const std::string config = read_file(model / "config.json");
    const std::string sound = read_file(model / "model.safetensors");
    std::size_t header = 8;
    for (int i = 0; i < 3; ++i)
      header += static_cast<std::size_t>(static_cast<unsigned char>(sound[static_cast<std::size_t>(i)]))
                << (8 * i);
    int refused = 0;
    for (int round = 0; round < 150; ++round) {
      std::string file = sound;
      for (int i = 0; i < 4; ++i) {
        // Half of them in the header, where names, types and shapes are.
        const std::size_t begin = i % 2 == 0 ? 8 : header,
                          size = i % 2 == 0 ? header - 8 : sound.size() - header;
        file[begin + static_cast<std::size_t>(random.uniform() * static_cast<double>(size))] =
            static_cast<char>(random.uniform() * 256);
      }
      write_file(folder.path() / "model.safetensors", file);
      write_file(folder.path() / "config.json", config);
      try {
        load_model_and_tokenizer({folder.path().string()}, {.threads = 1}, {.needs_tokenizer = false});
      } catch (const Error& error) {
        ++refused;
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      }
    }
    EXPECT_GT(refused, 50) << model;
  }
}

}  // namespace
}  // namespace assay::test

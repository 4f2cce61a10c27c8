// Quantized folders: ours against those that Transformers and bitsandbytes save
// (tools/make_quantized_fixtures.py), and ours read back.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/checkpoint/bitsandbytes.h"
#include "assay/model/model.h"
#include "assay/quant/four_bit.h"
#include "assay/quantize/quantize.h"
#include "assay/session/calibrate.h"
#include "assay/session/load_parts.h"
#include "assay/session/perplexity.h"
#include "support/fixtures.h"
#include "support/safetensors_copy.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

const std::string kModel = test::model_fixture("n_inner");

fs::path theirs(const std::string& precision) {
  return test::fixture("quantized") / precision;
}
nlohmann::json config_of(const fs::path& folder) {
  return nlohmann::json::parse(test::read_file(folder / "config.json"));
}
std::vector<float> logits_of(const fs::path& folder, const std::string& precision, Isa isa) {
  RunConfig config = run_config_from_text(precision);
  config.isa = isa;
  const LoadedModel loaded = load_model_and_tokenizer({folder.string()}, config, {.needs_tokenizer = false});
  return test::all_logits(loaded.model->program(), {1, 5, 58, 7, 0, 33, 2, 2, 51});
}

// A folder of tests/fixtures/quantized, of what model and how it was made.
struct FolderCase {
  const char *folder, *model, *precision;
  DType dtype;
  std::size_t matrices = 2 * 4;    // that are quantized
  std::int64_t element_bytes = 4;  // that of the model
};

QuantizeOptions options_of(const std::string& precision) {
  QuantizeOptions options;
  options.config = run_config_from_text(precision);
  return options;
}

class QuantizedFolder : public testing::TestWithParam<FolderCase> {
 protected:
  const std::string precision = GetParam().precision;
  const DType dtype = GetParam().dtype;
  const std::string model = test::model_fixture(GetParam().model);
  test::TemporaryFolder folder;
  const fs::path out = folder.path() / "out";

  QuantizeReport quantize(QuantizeOptions options = {}) const {
    const std::optional<int> threads = options.config.threads;
    options.config = run_config_from_text(precision);
    options.config.dtype = dtype;
    options.config.threads = threads;
    return quantize_model(model, out, options);
  }
};

TEST_P(QuantizedFolder, EqualsThatOfTransformersToTheByte) {
  quantize();
  EXPECT_TRUE(test::read_file(out / "model.safetensors") ==
              test::read_file(theirs(GetParam().folder) / "model.safetensors"));
  EXPECT_EQ(config_of(out)["quantization_config"],
            config_of(theirs(GetParam().folder))["quantization_config"]);
  EXPECT_EQ(config_of(out)["dtype"], config_of(theirs(GetParam().folder))["dtype"]);
}

TEST_P(QuantizedFolder, ThreadsChangeNothing) {
  const QuantizeReport one = quantize({.config = {.threads = 1}});
  const std::string file = test::read_file(out / "model.safetensors");
  const QuantizeReport three = quantize({.config = {.threads = 3}, .replaces = true});
  EXPECT_TRUE(file == test::read_file(out / "model.safetensors"));
  for (std::size_t i = 0; i < one.tensors.size(); ++i)
    EXPECT_EQ(one.tensors[i].error.rmse, three.tensors[i].error.rmse);
}

// What Transformers saved is read as it stands: the same codes and scales as our own, whatever the precision
// was called.
TEST_P(QuantizedFolder, TheirsIsReadAsOurs) {
  quantize();
  for (const Isa isa : test::usable_isas()) {
    const auto ours = logits_of(out, "auto", isa);
    EXPECT_EQ(ours, logits_of(theirs(GetParam().folder), "auto", isa)) << name_of(isa);
    EXPECT_EQ(ours, logits_of(theirs(GetParam().folder), precision, isa)) << name_of(isa);
  }
}

// Read back, a folder gives what quantizing at load gives, bit for bit: codes, scales, and scales of scales.
TEST_P(QuantizedFolder, GivesTheLogitsOfQuantizingAtLoad) {
  QuantizeOptions options = options_of(precision);
  options.config.dtype = DType::f32;
  quantize_model(model, out, options);
  for (const Isa isa : test::usable_isas()) {
    const auto stored = logits_of(out, "auto", isa);
    EXPECT_EQ(stored, logits_of(model, precision, isa)) << name_of(isa);
    EXPECT_NE(stored, logits_of(model, "float32", isa)) << name_of(isa);
  }
}

TEST_P(QuantizedFolder, AnInterruptAtAnyMomentLeavesNothing) {
  int moments = 0;
  quantize({.should_stop = [&] {
    ++moments;
    return false;
  }});
  ASSERT_GT(moments, 20);
  fs::remove_all(out);
  for (int last = 1; last <= moments; last += 7) {
    int moment = 0;
    EXPECT_THROW(quantize({.should_stop = [&] { return ++moment >= last; }}), Error);
    EXPECT_TRUE(folder.is_empty()) << last;
  }
}

TEST_P(QuantizedFolder, ReportsSizesAndErrors) {
  const QuantizeReport report = quantize();
  EXPECT_EQ(report.file_bytes_after, fs::file_size(out / "model.safetensors"));
  const ModelFolder source(model);
  EXPECT_EQ(report.file_bytes_before, source.weight_file_bytes());
  const std::size_t matrices = GetParam().matrices;
  ASSERT_EQ(report.tensors.size(), matrices);
  EXPECT_EQ(report.coverage.quantized, static_cast<std::int64_t>(matrices));
  const double best = precision == "llm-int8" ? 47 : precision.starts_with("nf4") ? 22 : 19;
  for (const QuantizedTensor& tensor : report.tensors) {
    EXPECT_EQ(tensor.bytes_before, tensor.rows * tensor.columns * GetParam().element_bytes);
    EXPECT_LT(tensor.bytes_after, tensor.bytes_before);
    EXPECT_GT(tensor.error.rmse, 0);
    EXPECT_GE(tensor.error.max_abs_error, tensor.error.rmse);
    EXPECT_GT(tensor.error.snr_db.value(), best - 3);
    EXPECT_LT(tensor.error.snr_db.value(), best);
    EXPECT_GT(tensor.error.cosine.value(), 0.98);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Precisions, QuantizedFolder,
    testing::Values(FolderCase{"nf4", "n_inner", "nf4", DType::f32},
                    FolderCase{"fp4", "n_inner", "fp4", DType::f16},
                    FolderCase{"nf4-dq", "n_inner", "nf4-dq", DType::bf16},
                    FolderCase{"fp4-dq", "n_inner", "fp4-dq", DType::f16},
                    FolderCase{"llm-int8", "n_inner", "llm-int8", DType::f32},
                    FolderCase{"llama-nf4", "llama_scaled", "nf4", DType::bf16, 2 * 7},
                    FolderCase{"llama-fp4-dq", "llama_scaled", "fp4-dq", DType::f16, 2 * 7},
                    FolderCase{"neox-nf4-dq", "gpt_neox_serial", "nf4-dq", DType::f16, 2 * 4, 2},
                    FolderCase{"opt-fp4", "opt_post_norm", "fp4", DType::f16, 2 * 6 + 2, 2},
                    FolderCase{"gemma3-llm-int8", "gemma3_scaled", "llm-int8", DType::f32, 3 * 7, 2},
                    FolderCase{"llama-llm-int8", "llama_scaled", "llm-int8", DType::f32, 2 * 7}),
    [](const auto& info) {
      std::string text = info.param.folder;
      for (char& c : text) c = c == '-' ? '_' : c;
      return text;
    });

struct Int8Case {
  Preset precision;
  std::optional<Calibrator> calibrator;
  std::optional<double> smooth_quant;
  std::optional<DType> dtype;  // the type of the folder and of its model, loaded
};

// int8 of our own: a folder that keeps its calibration gives the bits of a model that calibrates as it is
// loaded.
class Int8Folder : public testing::TestWithParam<Int8Case> {
 protected:
  const Int8Case how = GetParam();
  const std::string model = test::model_fixture("with_tokenizer");
  const std::vector<TokenId> ids{1, 5, 88, 7, 0, 33, 2, 2, 81};
  test::TemporaryFolder folder;
  const fs::path out = folder.path() / "out";

  QuantizeOptions quantize_options() const {
    QuantizeOptions options;
    options.config = config();
    return options;
  }
  RunConfig config() const {
    return {.precision = how.precision,
            .dtype = how.dtype,
            .calibrator = how.calibrator,
            .smooth_quant = how.smooth_quant};
  }
  LoadedModel calibrated(Isa isa) const {
    RunConfig own = config();
    own.isa = isa;
    return load_model_and_tokenizer({model}, own);
  }
  LoadedModel stored(Isa isa) const {
    return load_model_and_tokenizer({out.string()}, {.dtype = how.dtype, .isa = isa});
  }
};

TEST_P(Int8Folder, GivesTheBitsOfCalibratingAtLoad) {
  const QuantizeReport report = quantize_model(model, out, quantize_options());
  const LoadedModel fresh = calibrated(best_usable_isa()), again = stored(best_usable_isa());
  const auto logits = test::all_logits(fresh.model->program(), ids);
  EXPECT_EQ(test::all_logits(again.model->program(), ids), logits);
  EXPECT_EQ(again.calibration_s, 0);
  EXPECT_EQ(again.calibration_sha256, fresh.calibration_sha256);
  EXPECT_EQ(report.calibration_sha256, fresh.calibration_sha256);
  const CoverageFacts of_fresh = coverage_of(fresh.model->program().plan()),
                      of_again = coverage_of(again.model->program().plan());
  EXPECT_EQ(of_again.quantized, of_fresh.quantized);
  ASSERT_EQ(of_again.saturation.has_value(), of_fresh.saturation.has_value());
  if (of_fresh.saturation) {
    EXPECT_NEAR(*of_again.saturation, *of_fresh.saturation, 1e-6 * *of_fresh.saturation);
  }
  // The same ranges, whichever kernels run.
  for (const Isa isa : test::usable_isas()) {
    const auto backend = test::cpu_backend(isa);
    Precision precision = precision_of(how.precision);
    apply_to(precision, config());
    const auto source = std::make_shared<const ModelFolder>(fs::path(model));
    Calibration found;
    if (precision.needs_calibration())
      found = calibrate(source, test::cpu_backend(best_usable_isa()), precision,
                        read_calibration(shipped_file("texts/calibrate.txt"), *fresh.tokenizer).ids);
    EXPECT_EQ(test::all_logits(stored(isa).model->program(), ids),
              test::all_logits(Model::load(source, backend, precision, found).program(), ids))
        << name_of(isa);
  }
}

TEST_P(Int8Folder, SaysWhatItIs) {
  const QuantizeReport report = quantize_model(model, out, quantize_options());
  for (const QuantizedTensor& tensor : report.tensors) {
    EXPECT_LT(tensor.bytes_after, tensor.bytes_before);
    EXPECT_GT(tensor.error.snr_db.value(), 38) << tensor.name;
    EXPECT_GT(tensor.error.cosine.value(), 0.9999) << tensor.name;
  }
  const nlohmann::json config = config_of(out)["quantization_config"];
  EXPECT_EQ(config["quant_method"], "assay");
  EXPECT_EQ(config["precision"], name_of(how.precision));
  const std::string label = stored(best_usable_isa()).dtype_label;
  EXPECT_EQ(label.rfind(name_of(how.precision), 0), 0U);
  const std::string calibrator(how.calibrator ? name_of(*how.calibrator) : "");
  for (const std::string& word : {calibrator, std::string("(as stored)")})
    EXPECT_NE(label.find(word), std::string::npos) << label;
  EXPECT_EQ(label.find("SmoothQuant") != std::string::npos, how.smooth_quant.has_value()) << label;
  // It is one precision, and is neither calibrated nor quantized again.
  const auto refused = [&](const RunConfig& other) {
    EXPECT_THROW(load_model_and_tokenizer({out.string()}, other), Error) << other.label();
  };
  refused({.precision = how.precision == Preset::int8_static ? Preset::int8_dynamic : Preset::int8_static});
  refused({.precision = Preset::llm_int8});
  refused({.smooth_quant = 0.3});
  refused({.calibration = (fs::path(model) / "config.json").string()});
  EXPECT_THROW(quantize_model(out.string(), folder.path() / "twice", quantize_options()), Error);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Int8Folder,
    testing::Values(Int8Case{Preset::int8_static, Calibrator::minmax, {}, {}},
                    Int8Case{Preset::int8_static, Calibrator::percentile, {}, DType::bf16},
                    Int8Case{Preset::int8_static, Calibrator::entropy, 0.5, {}},
                    Int8Case{Preset::int8_static, Calibrator::percentile, 0.5, DType::bf16},
                    Int8Case{Preset::int8_dynamic, {}, {}, DType::bf16},
                    Int8Case{Preset::int8_dynamic, {}, 0.4, {}}),
    [](const auto& info) {
      const Int8Case& c = info.param;
      std::string name(name_of(c.precision));
      if (c.calibrator) name += fmt::format("_{}", name_of(*c.calibrator));
      if (c.dtype) name += fmt::format("_{}", name_of(*c.dtype));
      if (c.smooth_quant) name += "_smooth";
      for (char& letter : name) letter = letter == '-' ? '_' : letter;
      return name;
    });

TEST_P(Int8Folder, AnInterruptAtAnyMomentLeavesNothing) {
  int moments = 0, last = -1;
  QuantizeOptions options = quantize_options();
  options.should_stop = [&] { return moments++ == last; };
  quantize_model(model, out, options);
  ASSERT_GT(moments, how.calibrator || how.smooth_quant ? 100 : 20);
  fs::remove_all(out);
  const int all = moments;
  for (last = 0; last < all; last += 61) {
    moments = 0;
    EXPECT_THROW(quantize_model(model, out, options), Error);
    EXPECT_TRUE(folder.is_empty()) << last;
  }
}

// The text that a folder was calibrated on is not one to score, in whichever process that was.
TEST(Int8Folder, TheTextItWasCalibratedOnIsNotScored) {
  test::TemporaryFolder folder;
  QuantizeOptions options = options_of("int8-static");
  quantize_model(test::demo_model().string(), folder.path() / "out", options);
  const LoadedModel stored = load_model_and_tokenizer({(folder.path() / "out").string()}, "auto", Device{});
  EXPECT_THROW(score_file(stored, test::demo_model() / "texts/calibrate.txt"), Error);
  EXPECT_GT(score_file(stored, test::demo_model() / "texts/evaluate.txt", {.context = 64}).score.loss, 0);
}

TEST(Int8Folder, ExcludedModulesStayAsTheyAre) {
  test::TemporaryFolder folder;
  const std::string out = folder / "out";
  QuantizeOptions options = options_of("int8-static");
  options.config.exclude = {"*.mlp.c_proj"};
  const QuantizeReport report = quantize_model(test::model_fixture("with_tokenizer"), out, options);
  const auto fresh = load_model_and_tokenizer({test::model_fixture("with_tokenizer")}, options.config);
  const auto stored = load_model_and_tokenizer({out}, "auto", Device{});
  EXPECT_EQ(coverage_of(stored.model->program().plan()).quantized,
            static_cast<std::int64_t>(report.tensors.size()));
  EXPECT_EQ(test::all_logits(stored.model->program(), {1, 2, 3}),
            test::all_logits(fresh.model->program(), {1, 2, 3}));
}

// Errors are what the dequantized weights differ by, worked out from the written file.
TEST(Quantize, ErrorsAreThoseOfTheWrittenCodes) {
  test::TemporaryFolder folder;
  QuantizeOptions options = options_of("llm-int8");
  const QuantizeReport report = quantize_model(kModel, folder.path() / "out", options);
  const SafetensorsFile before(fs::path(kModel) / "model.safetensors"),
      after(folder.path() / "out/model.safetensors");
  const QuantizedTensor& tensor = report.tensors.front();
  const auto x = test::read_floats(before, tensor.name);
  const auto scb = test::read_floats(after, tensor.name.substr(0, tensor.name.rfind('.')) + ".SCB");
  std::vector<std::int8_t> codes(x.size());
  after.read_bytes(*after.find(tensor.name), 0, std::as_writable_bytes(std::span(codes)));
  double squares = 0;
  for (std::int64_t row = 0; row < tensor.rows; ++row)
    for (std::int64_t k = 0; k < tensor.columns; ++k) {
      const double restored = codes[static_cast<std::size_t>(row * tensor.columns + k)] *
                              static_cast<double>(scb[static_cast<std::size_t>(row)]) / 127;
      squares +=
          std::pow(static_cast<double>(x[static_cast<std::size_t>(k * tensor.rows + row)]) - restored, 2);
    }
  EXPECT_NEAR(tensor.error.rmse, std::sqrt(squares / static_cast<double>(x.size())),
              1e-6 * tensor.error.rmse);
}

TEST(Quantize, ExcludedModulesStayAsTheyAreAndAreNamed) {
  test::TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  QuantizeOptions options = options_of("nf4");
  options.config.exclude = {"*.mlp.c_proj"};
  const QuantizeReport report = quantize_model(kModel, out, options);
  EXPECT_EQ(report.tensors.size(), 6U);
  EXPECT_EQ(
      config_of(out)["quantization_config"]["llm_int8_skip_modules"],
      nlohmann::json::parse(R"(["lm_head", "transformer.h.0.mlp.c_proj", "transformer.h.1.mlp.c_proj"])"));
  const LoadOptions load{.needs_tokenizer = false};
  const LoadedModel stored = load_model_and_tokenizer({out.string()}, RunConfig{}, load);
  EXPECT_EQ(stored.dtype_label, "nf4 (as stored)");
  const LoadedModel loaded = load_model_and_tokenizer({kModel}, options.config, load);
  EXPECT_EQ(test::all_logits(stored.model->program(), {1, 2, 3}),
            test::all_logits(loaded.model->program(), {1, 2, 3}));
  const auto reason_of = [](const LoadedModel& model) {
    for (const CoverageFacts::Tensor& tensor : coverage_of(model.model->program().plan()).tensors)
      if (tensor.name == "transformer.h.1.mlp.c_proj.weight") return tensor.format + ": " + tensor.reason;
    return std::string();
  };
  EXPECT_EQ(reason_of(loaded), "float32: matches exclude");
  EXPECT_EQ(reason_of(stored), "float32: kept by the checkpoint");
}

TEST(Quantize, EveryFormOfTheFamilyIsWrittenAndRead) {
  for (const char* name : {"untied", "no_prefix", "sharded", "bf16", "f16", "odd_heads", "minimal"})
    for (const char* precision : {"fp4-dq", "llm-int8"}) {
      SCOPED_TRACE(std::string(name) + " " + precision);
      test::TemporaryFolder folder;
      quantize_model(test::model_fixture(name), folder.path() / "out", options_of(precision));
      const LoadOptions load{.needs_tokenizer = false};
      const std::vector<TokenId> ids{1, 2, 3, 4};
      const auto stored =
          load_model_and_tokenizer({(folder.path() / "out").string()}, "auto", Device{}, load);
      const auto loaded = load_model_and_tokenizer({test::model_fixture(name)}, precision, Device{}, load);
      EXPECT_EQ(test::all_logits(stored.model->program(), ids),
                test::all_logits(loaded.model->program(), ids));
    }
}

// Transformers quantizes an untied head where llm_int8_skip_modules is another list.
TEST(Quantize, AHeadThatIsStoredQuantizedIsReadAsItStands) {
  test::TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  quantize_model(test::model_fixture("untied"), out, {});
  test::TensorList tensors(out / "model.safetensors");
  const SafetensorsFile file(out / "model.safetensors");
  const StoredTensor& head = *file.find("lm_head.weight");
  const auto x = test::read_floats(file, head.name);
  std::vector<std::uint8_t> codes(x.size());
  std::vector<float> absmax((x.size() + 63) / 64);
  quantize_four_bit(FourBit::nf4, x, kFourBitBlock, codes.data(), absmax.data());
  std::string packed;
  for (std::size_t i = 0; i < codes.size(); i += 2) packed += static_cast<char>(codes[i] << 4 | codes[i + 1]);
  const auto add = [&](const std::string& name, const char* dtype, std::int64_t size, std::string bytes) {
    tensors.tensors.push_back({name, dtype, {size}, std::move(bytes)});
  };
  bitsandbytes::QuantState state;
  state.type = "nf4";
  state.shape = head.shape;
  const std::string text = state.text();
  tensors.remove(head.name);
  add(head.name, "U8", static_cast<std::int64_t>(packed.size()), packed);
  add(head.name + ".absmax", "F32", static_cast<std::int64_t>(absmax.size()), test::float_bytes(absmax));
  const auto& codebook = codebook_of(FourBit::nf4);
  add(head.name + ".quant_map", "F32", 16, test::float_bytes({codebook.begin(), codebook.end()}));
  add(head.name + ".quant_state.bitsandbytes__nf4", "U8", static_cast<std::int64_t>(text.size()), text);
  test::write_file(out / "model.safetensors", tensors.file());
  LoadOptions load;
  load.needs_tokenizer = false;
  const auto stored = load_model_and_tokenizer({out.string()}, "auto", Device{}, load);
  EXPECT_EQ(coverage_of(stored.model->program().plan()).quantized, 9);
  EXPECT_THROW(load_model_and_tokenizer({out.string()}, {.quantize_head = formats::kNf4}, load), Error);
  const auto loaded = load_model_and_tokenizer({test::model_fixture("untied")}, "nf4+head", Device{}, load);
  EXPECT_EQ(test::all_logits(stored.model->program(), {1, 2, 3}),
            test::all_logits(loaded.model->program(), {1, 2, 3}));
}

TEST(Quantize, ATokenizerGoesAlong) {
  test::TemporaryFolder folder;
  QuantizeOptions options;
  const QuantizeReport report =
      quantize_model(test::model_fixture("with_tokenizer"), folder.path() / "out", options);
  EXPECT_NE(std::find(report.files.begin(), report.files.end(), "tokenizer.json"), report.files.end());
  for (const std::string& file : report.files) EXPECT_TRUE(fs::exists(folder.path() / "out" / file)) << file;
  EXPECT_NE(load_model_and_tokenizer({(folder.path() / "out").string()}, "auto", Device{}).tokenizer,
            nullptr);
}

TEST(Quantize, NumbersThatAreNotFiniteAreNamedOrTakenAsZero) {
  test::TemporaryFolder folder;
  test::TinyModel model;
  const std::string name = "transformer.h.0.mlp.c_fc.weight";
  const float bad[] = {std::nanf(""), std::numeric_limits<float>::infinity()};
  std::memcpy(model.tensor(name).bytes.data() + 8, bad, sizeof(bad));
  model.write(folder.path() / "model");
  const fs::path out = folder.path() / "out";
  for (const char* precision : {"nf4", "fp4-dq", "llm-int8"}) {
    QuantizeOptions options = options_of(precision);
    options.replaces = true;
    try {
      quantize_model((folder.path() / "model").string(), out, options);
      FAIL() << "not refused";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
    options.config.allow_non_finite = true;
    const QuantizeReport report = quantize_model((folder.path() / "model").string(), out, options);
    std::int64_t replaced = 0;
    for (const QuantizedTensor& tensor : report.tensors) replaced += tensor.non_finite;
    EXPECT_EQ(replaced, 2);
    LoadOptions load;
    load.needs_tokenizer = false;
    const auto stored = load_model_and_tokenizer({out.string()}, "auto", Device{}, load);
    EXPECT_THROW(load_model_and_tokenizer({(folder.path() / "model").string()}, precision, Device{}, load),
                 Error);
    const auto loaded = load_model_and_tokenizer({(folder.path() / "model").string()}, options.config, load);
    const auto logits = test::all_logits(loaded.model->program(), {1, 2, 3});
    EXPECT_EQ(test::all_logits(stored.model->program(), {1, 2, 3}), logits);
    for (const float logit : logits) ASSERT_TRUE(std::isfinite(logit));
  }
}

std::int64_t status_kb(const std::string& label) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(label)) return std::stoll(line.substr(label.size()));
  return 0;
}

// A model of 33 MB, most of it one table, passes through less than 16.
TEST(Quantize, MemoryDoesNotGrowWithTheModel) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer keeps memory of its own";
  test::TemporaryFolder folder;
  const std::string model = test::TinyModel(1 << 21).write(folder.path() / "model");
  if (!(std::ofstream("/proc/self/clear_refs") << "5" << std::flush))
    GTEST_SKIP() << "the peak cannot be reset here";
  const std::int64_t before = status_kb("VmHWM:");
  quantize_model(model, folder.path() / "out", {});
  EXPECT_GT(before, 0);
  EXPECT_LT(status_kb("VmHWM:") - before, 16 * 1024);
}

TEST(Quantize, WhatIsAskedWrongIsRefused) {
  test::TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  QuantizeOptions options;
  const auto refused = [&](const std::string& model, const fs::path& target) {
    EXPECT_THROW(quantize_model(model, target, options), Error);
    EXPECT_FALSE(fs::exists(out));
  };
  options.config = run_config_from_text("int4-g128");
  refused(kModel, out);
  options.config = run_config_from_text("int8-static");
  refused(kModel, out);  // without a tokenizer there is nothing to calibrate on
  for (const RunConfig& config : {RunConfig{.precision = Preset::int8_dynamic, .calibration = "text.txt"},
                                  {.precision = Preset::int8_dynamic, .calibrator = Calibrator::minmax},
                                  {.precision = Preset::nf4, .smooth_quant = 0.5},
                                  {.precision = Preset::nf4, .dtype = DType::f64},
                                  {.precision = Preset::nf4, .quantize_head = formats::kInt8},
                                  {.precision = Preset::nf4, .kv_cache = KvFormat::int8}}) {
    options.config = config;
    EXPECT_THROW(quantize_model(kModel, out, options), FieldError) << config.key();
  }
  options.config = {.precision = Preset::nf4};
  refused(theirs("nf4").string(), out);  // quantized already
  refused(theirs("llm-int8").string(), out);
  refused(kModel, "");
  options.config.exclude = {"*"};
  refused(kModel, out);
  options.config.exclude.clear();
  fs::create_directory(folder.path() / "there");
  refused(kModel, folder.path() / "there");
  test::write_file(folder.path() / "there/letter.txt", "dear");
  options.replaces = true;
  refused(kModel, folder.path() / "there");  // no model folder: it is not replaced
  EXPECT_EQ(test::read_file(folder.path() / "there/letter.txt"), "dear");
  const std::string copy = (folder.path() / "model").string();
  test::copy_model_fixture("n_inner", copy);
  refused(copy, copy);
  EXPECT_TRUE(fs::exists(fs::path(copy) / "model.safetensors"));
}

}  // namespace
}  // namespace assay

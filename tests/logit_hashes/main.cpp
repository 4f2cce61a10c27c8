// Writes one line for every way in which this program computes logits: a model, a precision, the kernels, how
// the tokens came to them, and the SHA-256 of the logits' bits. Two builds compute the same where their lines
// are equal.
//   logit_hashes FILE [--sample N]    every N-th line alone
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "assay/backend/cuda/cuda_backend.h"
#include "assay/backend/cuda/runtime.h"
#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/base/sha256.h"
#include "assay/generate/steps.h"
#include "assay/model/model.h"
#include "assay/session/load.h"
#include "cuda_emulation/emulated_runtime.h"
#include "support/family_models.h"
#include "support/fixtures.h"

namespace assay {
namespace {

const char* const kModels[] = {"base",    "odd_heads",     "untied",        "sharded",      "no_prefix",
                               "f16",     "bf16",          "n_inner",       "gelu_erf",     "relu",
                               "silu",    "upcast",        "inverse_layer", "no_scale",     "epsilon",
                               "minimal", "llama_grouped", "llama_scaled",  "llama_biased", "llama_minimal"};
const char* const kQuantizedModels[] = {
    "fp4",         "fp4-dq", "gemma3-llm-int8", "llama-fp4-dq", "llama-llm-int8", "llama-nf4", "llm-int8",
    "neox-nf4-dq", "nf4",    "nf4-dq",          "opt-fp4"};

// What changes how a number is computed: precisions, and fields of the configuration beside them.
struct Variant {
  std::string name;
  RunConfig config;
};

std::vector<Variant> cpu_variants() {
  std::vector<Variant> all;
  const auto add = [&](
                       std::string_view text, const std::string& suffix = "",
                       const std::function<void(RunConfig&)>& change = [](RunConfig&) {}) {
    RunConfig config = run_config_from_text(text);
    config.tune = Tune::off;
    change(config);
    all.push_back({std::string(text) + suffix, config});
  };
  for (const char* text :
       {"float32", "bfloat16", "int8-dynamic", "llm-int8", "nf4", "fp4", "nf4-dq", "fp4-dq", "int4-g128",
        "nf4+head", "nf4+activations:int8", "int4-g128+head+activations:int8", "int8-dynamic+head:int8"})
    add(text);
  for (const char* text : {"nf4", "llm-int8", "int8-dynamic", "int4-g128"})
    add(text, ",dtype=bfloat16", [](RunConfig& config) { config.dtype = DType::bf16; });
  add("float32", ",bf16x3", [](RunConfig& config) { config.float32_matmul = Float32Matmul::bf16x3; });
  add("float32", ",bf16x6", [](RunConfig& config) { config.float32_matmul = Float32Matmul::bf16x6; });
  add("float32", ",kv=int8", [](RunConfig& config) { config.kv_cache = KvFormat::int8; });
  add("bfloat16", ",kv=int8", [](RunConfig& config) { config.kv_cache = KvFormat::int8; });
  add("int8-dynamic", ",per_tensor", [](RunConfig& config) { config.input_scale = InputScale::per_tensor; });
  return all;
}

std::vector<Variant> gpu_variants() {
  std::vector<Variant> all;
  for (const char* text : {"float32", "float16", "bfloat16"})
    all.push_back({text, run_config_from_text(text)});
  // A GPU computes what is not quantized in float16 where nothing else is asked for.
  for (const char* text : {"int8-dynamic", "llm-int8", "nf4", "fp4-dq", "int4-g128", "nf4+activations:int8"})
    for (const DType dtype : {DType::f32, DType::f16}) {
      RunConfig config = run_config_from_text(text);
      config.dtype = dtype;
      all.push_back({dtype == DType::f32 ? text : fmt::format("{},dtype=float16", text), config});
    }
  RunConfig tf32 = run_config_from_text("float32");
  tf32.float32_matmul = Float32Matmul::tf32;
  all.push_back({"float32,tf32", tf32});
  return all;
}

std::vector<TokenId> some_ids(std::int64_t count, std::int64_t vocab, std::uint32_t seed) {
  std::vector<TokenId> ids;
  for (std::int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525U + 1013904223U;
    ids.push_back(static_cast<TokenId>((seed >> 8) % static_cast<std::uint32_t>(vocab)));
  }
  return ids;
}

class Lines {
 public:
  Lines(const std::string& path, int every) : out_(path), every_(every) {
    if (!out_) throw Error("{}: cannot be written", path);
  }
  bool wants_next() { return next_++ % every_ == 0; }
  void add(const std::string& name, std::span<const float> logits) {
    out_ << name << ' ' << sha256_hex({reinterpret_cast<const char*>(logits.data()), logits.size_bytes()})
         << '\n';
    ++count_;
  }
  void add_refusal(const std::string& name, const std::string& why) {
    out_ << name << " refused: " << why.substr(0, 60) << '\n';
    ++count_;
  }
  int count() const { return count_; }

 private:
  std::ofstream out_;
  int every_, next_ = 0, count_ = 0;
};

std::vector<float> head_of(Program& program, std::int64_t row) {
  std::vector<float> logits(static_cast<std::size_t>(program.plan().vocab));
  program.head(std::span(&row, 1), LogitsSink{logits});
  return logits;
}

// A token at a time over the cache.
std::vector<float> decode_logits(Program& program, const std::vector<TokenId>& ids) {
  std::vector<float> all;
  const auto cache = program.make_cache();
  const int sequence = cache->add_sequence();
  for (const TokenId& id : ids) {
    const StepItem item{sequence, std::span(&id, 1)};
    run_in_steps(program, *cache, std::span(&item, 1), [&](std::span<const StepPart> parts) {
      const std::vector<float> logits = head_of(program, parts.front().first_row);
      all.insert(all.end(), logits.begin(), logits.end());
    });
  }
  return all;
}

// Three texts of unlike lengths together, one of them padded, and then a token of each.
std::vector<float> batch_logits(Program& program, const std::vector<TokenId>& ids) {
  std::vector<float> all;
  const auto cache = program.make_cache();
  const std::span<const TokenId> text = ids;
  std::vector<StepItem> items{{cache->add_sequence(), text.first(text.size() - 1)},
                              {cache->add_sequence(), text.first(text.size() / 2), 2},
                              {cache->add_sequence(), text.first(1)}};
  const auto take_last = [&](std::span<const StepPart> parts) {
    for (const StepPart& part : parts) {
      const std::vector<float> logits = head_of(program, part.first_row + part.rows - 1);
      all.insert(all.end(), logits.begin(), logits.end());
    }
  };
  run_in_steps(program, *cache, items, take_last);
  for (StepItem& item : items) item = {item.sequence, text.last(1)};
  run_in_steps(program, *cache, items, take_last);
  return all;
}

struct Kernels {
  std::string name;
  std::shared_ptr<Backend> backend;
  std::vector<Variant> variants;
  std::int64_t tokens;
};

void hash_model(const std::string& name, const std::filesystem::path& folder, const Kernels& kernels,
                Lines& lines) {
  const bool is_stored = folder.parent_path().filename() == "quantized";
  for (const Variant& variant : kernels.variants) {
    RunConfig config = variant.config;
    if (is_stored) {
      if (config.precision != Preset::float32 || config.float32_matmul) continue;
      config.precision.reset();
      config.dtype = DType::f32;
    }
    if (!lines.wants_next()) continue;
    const std::string prefix = fmt::format("{} {} {}", name, variant.name, kernels.name);
    try {
      const LoadedModel loaded = load_model_and_tokenizer(
          {folder.string()}, config, {.shared_backend = kernels.backend, .needs_tokenizer = false});
      Program& program = loaded.model->program();
      const std::vector<TokenId> ids =
          some_ids(std::min(kernels.tokens, loaded.model->spec().context), program.plan().vocab, 7);
      lines.add(prefix + " prefill", test::all_logits(program, ids));
      lines.add(prefix + " decode", decode_logits(program, ids));
      lines.add(prefix + " batch", batch_logits(program, ids));
    } catch (const Error& e) {
      lines.add_refusal(prefix, e.what());
    }
  }
}

int run(const std::string& path, int every) {
  std::vector<Kernels> all;
  for (const Isa isa : kAllIsas)
    if (is_usable(isa))
      all.push_back({std::string(name_of(isa)), test::cpu_backend(isa), cpu_variants(), 24});
  all.push_back({"emulated-gpu",
                 make_cuda_backend(Device{Device::Kind::cuda, 0}, cuda::make_emulated_runtime(), {}),
                 gpu_variants(), 5});
  Lines lines(path, every);
  for (const Kernels& kernels : all) {
    for (const char* name : kModels) hash_model(name, test::fixture_model(name), kernels, lines);
    for (const char* name : test::kFamilyModels) hash_model(name, test::fixture_model(name), kernels, lines);
    for (const char* name : kQuantizedModels)
      hash_model(name, test::fixture("quantized") / name, kernels, lines);
    if (kernels.tokens > 5) hash_model("demo", test::demo_model(), kernels, lines);
  }
  fmt::print("{}: {} lines\n", path, lines.count());
  return 0;
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) {
  try {
    int every = 1;
    const std::string usage = "usage: logit_hashes FILE [--sample N]";
    if (argc != 2 && !(argc == 4 && std::string_view(argv[2]) == "--sample"))
      throw assay::UsageError("{}", usage);
    if (argc == 4) {
      const std::string_view text = argv[3];
      const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), every);
      if (failed != std::errc{} || end != text.data() + text.size() || every < 1)
        throw assay::UsageError("--sample: expected a number from 1, found {}", text);
    }
    return assay::run(argv[1], every);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}

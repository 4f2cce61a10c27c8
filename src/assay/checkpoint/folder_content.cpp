#include "assay/checkpoint/folder_content.h"

#include <algorithm>
#include <system_error>

#include "assay/base/error.h"
#include "assay/checkpoint/configuration_file.h"
#include "assay/checkpoint/gguf_shards.h"

#include <nlohmann/json.hpp>

namespace assay {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kWeightEndings[] = {".safetensors",
                                               ".safetensors.index.json",
                                               ".bin",
                                               ".bin.index.json",
                                               ".pt",
                                               ".pth",
                                               ".ckpt",
                                               ".h5",
                                               ".msgpack",
                                               ".gguf",
                                               ".ggml",
                                               ".onnx",
                                               ".ot",
                                               ".tflite",
                                               ".npz",
                                               ".onnx_data",
                                               ".mlmodel",
                                               ".h5.index.json",
                                               ".msgpack.index.json"};

bool ends_with_any(const std::string& name) {
  return std::any_of(std::begin(kWeightEndings), std::end(kWeightEndings),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code))
    entries.push_back(at->path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool holds_weights(const fs::path& folder, int depth) {
  const std::vector<fs::path> entries = entries_of(folder);
  return std::any_of(entries.begin(), entries.end(), [&](const fs::path& entry) {
    std::error_code code;
    return ends_with_any(entry.filename().string()) ||
           (depth > 0 && fs::is_directory(entry, code) && holds_weights(entry, depth - 1));
  });
}

constexpr int kDeepest = 4;  // links may lead round

void add_files(const fs::path& folder, const fs::path& inside, int depth, std::vector<fs::path>& files) {
  for (const fs::path& entry : entries_of(folder)) {
    const std::string name = entry.filename().string();
    std::error_code code;
    const bool is_top = inside.empty();
    if (name.starts_with(".") || (is_top && (name == "config.json" || name == "adapter_config.json")))
      continue;
    if (fs::is_directory(entry, code)) {
      if (depth > 0 && !holds_weights(entry, depth - 1)) add_files(entry, inside / name, depth - 1, files);
    } else if (fs::is_regular_file(entry, code) && !ends_with_any(name)) {
      files.push_back(inside / name);
    }
  }
}

// "'org/base'"; "its base model" where the file does not say.
std::string base_of_adapter(const fs::path& file) {
  try {
    const Json config = read_configuration(file);
    const std::string base = JsonView(config, file.string()).text_or("base_model_name_or_path", "");
    if (!base.empty()) return "'" + printable(base) + "'";
  } catch (const Error&) {  // another error is being reported
  }
  return "its base model";
}

}  // namespace

std::vector<fs::path> files_beside_weights(const fs::path& folder) {
  std::vector<fs::path> files;
  add_files(folder, {}, kDeepest, files);
  return files;
}

bool shows_model(const fs::path& folder) {
  constexpr std::string_view kNames[] = {"adapter_config.json",
                                         "generation_config.json",
                                         "tokenizer.json",
                                         "tokenizer.model",
                                         "tokenizer_config.json",
                                         "vocab.json",
                                         "vocab.txt",
                                         "merges.txt"};
  bool has_config = false, has_run = false;
  for (const fs::path& entry : entries_of(folder)) {
    const std::string name = entry.filename().string();
    if (ends_with_any(name) || std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames))
      return true;
    has_config = has_config || name == "config.json";
    has_run = has_run || name == "journal.jsonl" || name == "results.json";
  }
  return has_config && !has_run;
}

std::string place_of(const fs::path& folder) {
  std::error_code code;
  const fs::path place = fs::absolute(folder, code);
  return folder.is_absolute() || code ? "" : " in " + printable(place.lexically_normal().string());
}

std::string advice_on(const fs::path& folder) {
  std::error_code code;
  if (fs::exists(folder / "adapter_config.json", code))
    return fmt::format(
        "; it holds an adapter: merge it into {} with PEFT's merge_and_unload() and save_pretrained(), and "
        "give that folder",
        base_of_adapter(folder / "adapter_config.json"));
  std::vector<std::string> names;
  for (const fs::path& entry : entries_of(folder)) names.push_back(entry.filename().string());
  const auto first = [&](const auto& is_it) {
    const auto at = std::find_if(names.begin(), names.end(), is_it);
    return at == names.end() ? std::string() : printable(*at);
  };
  const auto ending = [&](std::string_view end) {
    return first([end](const std::string& name) { return name.ends_with(end); });
  };
  if (const std::string name = ending(".safetensors"); !name.empty() && name != "model.safetensors")
    return fmt::format(
        "; it holds {}: expected the name model.safetensors, or an index that names the shards", name);
  if (const std::string name = first([](const std::string& each) {
        return each.starts_with("pytorch_model") && (each.ends_with(".bin") || each.ends_with(".index.json"));
      });
      !name.empty())
    return fmt::format(
        "; it holds {}, pickled weights: save the model again with safe_serialization=True, or try the pull "
        "request of the hub that converts it (org/name@refs/pr/N)",
        name);
  if (const std::string name = first([](const std::string& each) {
        return each.ends_with(".gguf") && each.find("mmproj") != std::string::npos;
      });
      !name.empty())
    return fmt::format(
        "; it holds {}, the projector of a model that sees or hears: the GGUF file of the language "
        "model is missing",
        name);
  if (const std::string name = ending(".gguf"); gguf_shard_name(name).number > 1)
    return fmt::format("; it holds {}, a shard of a model whose first one is missing", name);
  if (const std::string name = ending(".gguf"); !name.empty())
    return fmt::format("; it holds {}: give that file as the model, {}", name,
                       printable((folder / name).string()));
  for (const std::string_view end : {".bin", ".pth", ".pt", ".h5", ".msgpack", ".onnx"})
    if (const std::string name = ending(end); !name.empty())
      return fmt::format("; it holds {}, weights of another format: save the model with Transformers", name);
  return "";
}

}  // namespace assay

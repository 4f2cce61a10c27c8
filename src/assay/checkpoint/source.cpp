#include "assay/checkpoint/source.h"

#include <algorithm>
#include <span>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/sha256.h"
#include "assay/base/tokenizer_files.h"
#include "assay/checkpoint/gguf_folder.h"
#include "assay/checkpoint/gguf_source.h"
#include "assay/checkpoint/model_folder.h"

namespace assay {

namespace fs = std::filesystem;

std::string ModelSource::config_name() const {
  return fs::path(config().where()).filename().string();
}

std::string ModelSource::content_hash() const {
  return hash_of(checkpoint().files());
}

std::string ModelSource::hash_of(const std::vector<fs::path>& files) {
  Sha256 hash;
  std::vector<std::byte> slab(std::size_t{4} << 20);
  for (const fs::path& path : files) {
    const ReadFile file(path);
    for (std::uint64_t offset = 0; offset < file.size();) {
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(slab.size(), file.size() - offset));
      file.read_exactly(offset, std::span(slab.data(), n));
      hash.update(std::span<const std::byte>(slab.data(), n));
      offset += n;
    }
  }
  return hash.hex();
}

std::vector<ModelSource::Companion> ModelSource::companions() const {
  std::vector<Companion> made;
  const auto add = [&](const char* name, const Json& content) {
    if (!content.empty()) made.push_back({name, content.dump(2) + "\n"});
  };
  add("generation_config.json", generation_config().raw());
  if (!has_tokenizer()) return made;
  const TokenizerFiles files = tokenizer_files();
  if (files.tokenizer) add("tokenizer.json", files.tokenizer->content);
  if (files.vocabulary) add("vocab.json", files.vocabulary->content);
  if (files.merges) made.push_back({"merges.txt", files.merges->content});
  if (files.pieces) made.push_back({"tokenizer.model", files.pieces->content});
  add("added_tokens.json", files.added_tokens.content);
  add("tokenizer_config.json", files.config.content);
  add("special_tokens_map.json", files.special_tokens.content);
  return made;
}

namespace {

bool is_model_folder(const fs::path& folder) {
  return fs::exists(folder / "model.safetensors") || fs::exists(folder / "model.safetensors.index.json");
}

}  // namespace

// A file that is a model by itself is recognised by its first bytes, whatever its name is.
std::shared_ptr<const ModelSource> open_source(const fs::path& path) {
  if (fs::is_regular_file(path)) {
    if (path.extension() != ".gguf") refuse_lfs_pointer(ReadFile(path));
    if (path.extension() != ".gguf" && !GgufFile::is_one(path))
      throw Error("{}: expected a model folder or a GGUF file, found another file", path.string());
    return std::make_shared<const GgufSource>(path);
  }
  if (fs::is_directory(path) && !is_model_folder(path) && !gguf_models_in(path).empty())
    return std::make_shared<const GgufSource>(gguf_model_in(path));
  return std::make_shared<const ModelFolder>(path);
}

TokenizerFiles tokenizer_files_at(const fs::path& path) {
  const bool has_own = fs::is_directory(path) && (has_tokenizer_files(path) || gguf_models_in(path).empty());
  return has_own ? read_tokenizer_files(path) : open_source(path)->tokenizer_files();
}

}  // namespace assay

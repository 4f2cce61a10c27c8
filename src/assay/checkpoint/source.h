// Where a model comes from: configuration, tokenizer, tensors and their formats, all from one place. A new
// kind of file is one more ModelSource, and a line in open_source().
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "assay/base/json_view.h"
#include "assay/checkpoint/checkpoint.h"
#include "assay/checkpoint/quantized_weights.h"

namespace assay {

struct TokenizerFiles;  // base/tokenizer_files.h

// Keys of the configuration and names of tensors are those of Transformers: a source whose file has others
// translates them by tables of its own, and back where a message names one (JsonView::name_of,
// Checkpoint::name_in_file). Several threads may read.
class ModelSource {
 public:
  virtual ~ModelSource() = default;

  virtual const std::filesystem::path& path() const = 0;  // a folder or a file
  // With the keys of config.json and generation_config.json; where() names the file that says it. Valid as
  // long as the source.
  virtual JsonView config() const = 0;
  virtual JsonView generation_config() const = 0;
  virtual const Checkpoint& checkpoint() const = 0;
  // What the file says its mix of types is called, "Q4_K_M"; empty where it says nothing.
  virtual std::string file_type() const { return {}; }
  // The reader of weights that are stored quantized; null where there are none. The source must outlive it.
  // Throws Error for a method of quantization that is not supported.
  virtual std::unique_ptr<const QuantizedWeights> quantized_weights() const = 0;

  virtual bool has_tokenizer() const = 0;
  // Throws Error saying what was expected where there is none.
  virtual TokenizerFiles tokenizer_files() const = 0;

  // The identity of the model: SHA-256 of the files that its numbers come from, here those of the checkpoint,
  // in the order of their names. Reads all of them.
  virtual std::string content_hash() const;
  std::uint64_t weight_file_bytes() const { return checkpoint().file_bytes(); }

  // What goes with the weights where they are written to another folder, by file name: the tokenizer, and how
  // to generate. Made of the above, unless the source has such files.
  struct Companion {
    std::string name, content;        // a path inside the folder: "chat_templates/tool.jinja"
    std::filesystem::path file = {};  // whose content it is, where `content` is empty
  };
  virtual std::vector<Companion> companions() const;

  // "config.json", for messages.
  std::string config_name() const;
  // The checkpoint's.
  CheckpointTensor find(const std::string& name) const { return checkpoint().find(name); }
  std::vector<CheckpointTensor> all() const { return checkpoint().tensors(); }

 protected:
  // SHA-256 of the files, one after another.
  static std::string hash_of(const std::vector<std::filesystem::path>& files);
};

// What a path that locate_model() gave holds: a Hugging Face folder, a GGUF file, any shard of one, or a
// folder with one GGUF model and no safetensors. Throws Error naming the file and what is wrong with it.
std::shared_ptr<const ModelSource> open_source(const std::filesystem::path& path);
// The tokenizer alone: of a folder, which need hold nothing else then, or of a source's file.
TokenizerFiles tokenizer_files_at(const std::filesystem::path& path);

// The folder of the model that ships with the program, whatever lies in the folder that it runs in.
// `data_folder` as below. Throws Error.
std::filesystem::path locate_shipped_model(const std::filesystem::path& data_folder = {});

// The folder or file that a candidate names: an existing one (a folder in which nothing looks like a model's
// comes last, so that results under a model's name are not taken for it), `demo` (the model that ships with
// the program), or an entry of the Hugging Face cache (hub_cache.h) such as `gpt2`, `org/name` or
// `org/name@revision`, where a revision is a branch, a tag, a commit or refs/pr/N; or such an entry as a
// folder,
// .../models--org--name. Behind a folder or an entry `:PART` chooses, of several GGUF files, the one that has
// it in its name or as its name (`org/name:Q4_K_M`). `data_folder` is where demo/ is looked for first: a
// library inside another program, which does not lie beside it, is told so. Throws NoSuchModel saying where
// it looked, and Error for what exists and is no model.
std::filesystem::path locate_model(const std::string& candidate,
                                   const std::filesystem::path& data_folder = {});

}  // namespace assay

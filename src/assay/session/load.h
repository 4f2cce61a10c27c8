// Loads a model and its tokenizer from the same source, and labels the dtype that really runs.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/token_id.h"
#include "assay/base/units.h"
#include "assay/config/run_config.h"
#include "assay/quant/precision.h"
#include "assay/results/results.h"
#include "assay/session/resolved_dtype.h"

namespace assay {

class Backend;           // backend/backend.h
struct KernelConstants;  // backend/constants.h
class Model;             // model/model.h
class Tokenizer;         // text/tokenizer.h

struct LoadedModel {
  // Null only where the model has none, or none that can be read (a warning says why), and none was required.
  std::shared_ptr<const Tokenizer> tokenizer;
  std::string no_tokenizer;  // why it could not be read; empty where there is one, or none at all
  std::shared_ptr<Model> model;
  std::string id;    // the candidate that was used, as it was given
  RunConfig config;  // as it was asked for; a precision that was not set is the one that runs, unless the
                     // checkpoint is quantized
  std::string dtype_label;
  std::vector<Warning> warnings;
  TokenId pad_token = 0;                 // end-of-text where the model names no other
  std::string calibration_sha256;        // the hash of the text it was calibrated on, which is none to score;
                                         // empty: none was
  std::vector<TokenId> calibration_ids;  // that it was calibrated on as it was loaded
  double calibration_s = 0;              // that running the calibration text took
  // "Loaded: demo | device=cpu | dtype=float32"
  std::string load_line() const;
};

// What is not configuration.
struct LoadOptions {
  // To load on instead of a new one; the configuration's device, isa, threads and cpu_mask are not read then.
  std::shared_ptr<Backend> shared_backend = nullptr;
  bool needs_tokenizer = true;  // false: a model without one that can be read serves for token ids
  bool pins_caller = false;     // a program that measures pins its main thread; a library leaves it alone
  // Taken by CPU kernels as they are: then nothing is tuned.
  std::shared_ptr<const KernelConstants> constants = nullptr;
  // That holds demo/, which ships with the program; empty: where ASSAY_MODELS says, or where an installed or
  // a built program has it.
  std::filesystem::path data_folder = {};
  // Asked before each piece of a tensor is read, by one thread at a time; true: loading throws Stopped.
  std::function<bool()> should_stop = {};
};

// "gpt2, demo": the candidates that a list names, in its order; a folder whose name has a comma is one. Of an
// empty text, one without a name.
std::vector<std::string> candidates_from_text(std::string_view list);

// Tries the candidates in order: folders, Hugging Face cache entries, or `demo`. Tokenizer and model come
// from the same folder. When all fail, one Error gives each candidate's reason. A precision that is not set
// is float32, or what a checkpoint that is quantized already holds; of such a checkpoint every other
// precision is an error, unless its weights can be read as numbers too (GGUF).
LoadedModel load_model_and_tokenizer(const std::vector<std::string>& candidates, const RunConfig& config,
                                     const LoadOptions& options = {});
// By names alone: `dtype` as run_config_from_text() reads it, "auto" leaves the precision unset.
LoadedModel load_model_and_tokenizer(const std::vector<std::string>& candidates, std::string_view dtype,
                                     const Device& device, const LoadOptions& options = {});

// Bytes of parameters and buffers, as Transformers' get_memory_footprint() counts them.
Bytes get_model_memory_footprint(const Model& model);

// What results say of a loaded model: without the hash of its files, which would mean reading them all.
ModelFacts model_facts(const LoadedModel& loaded);

// A file that ships with the program ("texts/evaluate.txt"), beside the demo model. Throws Error when it is
// absent. `data_folder` as in LoadOptions.
std::filesystem::path shipped_file(const std::string& name, const std::filesystem::path& data_folder = {});

}  // namespace assay

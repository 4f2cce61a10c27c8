// Flags that several commands share, each with one meaning everywhere.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "assay/harness/case.h"
#include "assay/session/load.h"
#include "assay/session/time_generate.h"

namespace assay::cli {

// Options of numbers, read strictly: decimal, whole where they are whole, in range; a UsageError names the
// flag.
CLI::Option* add_whole(CLI::App& app, const std::string& names, std::int64_t& target,
                       const std::string& description, std::int64_t min = 0,
                       std::int64_t max = std::int64_t{1} << 40);
// A comma list of them.
CLI::Option* add_whole_list(CLI::App& app, const std::string& names, std::vector<std::int64_t>& target,
                            const std::string& description, std::int64_t min = 0,
                            std::int64_t max = std::int64_t{1} << 40);
CLI::Option* add_real(CLI::App& app, const std::string& names, double& target,
                      const std::string& description);

// The words of a comma list, without blanks around them; empty ones are left out.
std::vector<std::string> words_of(const std::string& list);

// The parts of a comma list, without blanks around them; a folder whose name has a comma is itself.
std::vector<std::string> candidates_of(const std::string& model);

struct ModelFlags {
  std::string model;
  std::string precision = std::string(kAutoPrecision);
  std::string device = "auto";
  std::int64_t threads = 0;
  std::string isa, cpu_mask, kv_cache, float32_matmul, remainder, quantized_head;
  double outlier_threshold = -1;
  ModuleSelection modules;
  bool allows_non_finite = false, screens_head = false;
  std::string input_scale, calibration, calibrator;
  double smoothing = -1;

  // The flags that say which modules a quantized precision quantizes.
  void add_selection_to(CLI::App& app);
  void add_to(CLI::App& app, bool is_model_required = true);
  void add_screen_to(CLI::App& app);
  // The flags that say how products of some precisions are computed.
  void add_products_to(CLI::App& app);
  void add_input_scale_to(CLI::App& app);
  void add_calibration_to(CLI::App& app);
  Device resolved_device() const { return device_from_name(device); }
  Configuration without_precision() const;
  // What the flags say of every configuration; its precision is the first of the list, "float32" of none.
  // Throws UsageError for an unknown precision, and for a flag that applies to none of the list.
  Configuration configuration() const;
  LoadedModel load(bool needs_tokenizer) const;
};

struct PromptFlags {
  std::vector<std::string> prompts;
  std::string prompts_file;
  std::string ids;

  void add_to(CLI::App& app);
  std::string truncate;  // "", "left" or "right"

  bool is_empty() const { return prompts.empty() && prompts_file.empty() && ids.empty(); }
  bool is_ids_only() const { return !ids.empty() && prompts.empty() && prompts_file.empty(); }
  // In the order: -p, the file's lines, --ids. Throws UsageError when there is none.
  std::vector<Prompt> read() const;
};

struct SamplingFlags {
  SamplingOptions options;
  std::int64_t seed = 0;
  void add_to(CLI::App& app);
  SamplingOptions checked() const;  // throws UsageError
};

struct OutputFlags {
  bool is_json = false, is_quiet = false, has_no_progress = false;
  void add_to(CLI::App& app);
  bool shows_progress() const;  // a terminal, and nobody said no
};

// "1,2,3" or ids separated by blanks. Throws UsageError naming what is not an id.
std::vector<TokenId> ids_from_text(const std::string& text, const std::string& where);
// A file's text, or standard input for "-".
std::string read_input(const std::string& file);

}  // namespace assay::cli

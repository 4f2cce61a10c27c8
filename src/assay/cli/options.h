// Flags that several commands share, each with one meaning everywhere.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "assay/config/fields.h"
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

// --sample, --sample=TOKENS or --sample TOKENS: sets the tokens of a text that the model writes itself.
CLI::Option* add_sample_flag(CLI::App& app, std::int64_t& tokens);
// The words of a command line, in which a flag whose value may be left out takes the next word where that is
// a number, and nothing else: "--sample 500" becomes "--sample=500", and no word behind it is taken for a
// value.
std::vector<std::string> with_optional_values(const std::vector<std::string>& words);

// The words of a comma list, without blanks around them; empty ones are left out.
std::vector<std::string> words_of(const std::string& list);

// The parts of a comma list, without blanks around them; a folder whose name has a comma is itself.
std::vector<std::string> candidates_of(const std::string& model);

// A flag of the configuration's field table, read into `config`.
CLI::Option* add_field(CLI::App& app, const Field& field, RunConfig& config);

struct ModelFlags {
  std::string model;
  std::string precision = std::string(kAutoPrecision);  // a list where the command takes one
  RunConfig config;                                     // all but the precision

  // MODEL, --precision and a flag for each other field of the configuration.
  void add_to(CLI::App& app, bool is_model_required = true);
  // The flags of these fields alone.
  void add_fields_to(CLI::App& app, std::initializer_list<std::string_view> keys);
  // The flags of all fields but the precision and these.
  void add_fields_but(CLI::App& app, std::initializer_list<std::string_view> keys);
  // What the flags say of every configuration, with the first precision of the list; none where there is no
  // list. Throws FieldError for an unknown precision, and for a field that applies to none of the list.
  RunConfig configuration() const;
  LoadedModel load(bool needs_tokenizer) const;
};

// How files of texts are read: what becomes of line ends, and whether a warning tells of it.
struct Reading {
  Newlines newlines = Newlines::universal;
  bool is_quiet = false;
};

struct PromptFlags {
  std::vector<std::string> prompts;
  std::string prompts_file;
  std::string ids;

  void add_to(CLI::App& app);
  std::string truncate = "none";
  Truncation truncation() const { return truncation_from_name(truncate); }

  bool is_empty() const { return prompts.empty() && prompts_file.empty() && ids.empty(); }
  bool is_ids_only() const { return !ids.empty() && prompts.empty() && prompts_file.empty(); }
  // In the order: -p, the file's lines, --ids. Throws UsageError when there is none.
  std::vector<Prompt> read(const Reading& reading = {}) const;
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
// Throws Error where a file cannot be read, without opening it: a pipe gives its text once. Commands ask
// before they load a model, which may take minutes. An empty name and "-" are no files.
void check_input(const std::string& file);
// A file's text, or standard input for "-".
std::string read_input(const std::string& file);

// Throws UsageError for a flag or an argument with an empty value, which would quietly mean the default;
// looks into the subcommands that were given. Prompts may be empty: that is a case which fails, as a model's
// name is.
void refuse_empty_values(const CLI::App& command);
// A check of one option: an empty variable of a script must not switch it off.
std::string not_empty(const std::string& value);

// Moves the model that --baseline names, by what was given or by the last part of its path, to the front; an
// empty name moves none. Throws UsageError for a name of none.
void put_baseline_first(std::vector<std::string>& models, const std::string& baseline);

// --limit: what the chosen configuration must keep. Given several times, all hold.
void add_limit_option(CLI::App& app, std::vector<std::string>& limits);
// Empty where none was given. Throws FieldError.
std::optional<Limits> limits_of(const std::vector<std::string>& given);

}  // namespace assay::cli

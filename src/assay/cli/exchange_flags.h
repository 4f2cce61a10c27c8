// What `assay sensitivity` and `assay mix` share: a model in float32 or bfloat16 whose parts change their
// formats, the tokens it is measured on, and how estimates are written.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "assay/cli/options.h"
#include "assay/session/format_items.h"
#include "assay/statistics/divergence_statistics.h"

namespace assay::cli {

struct ExchangeFlags {
  ModelFlags model;
  OutputFlags output;
  std::string file, baseline = "float32";
  bool is_ids = false;
  std::int64_t context = 0, max_tokens = 2000;

  // MODEL, and a flag for each field; `max_tokens_help` says what --max-tokens counts here.
  void add_to(CLI::App& app, const std::string& max_tokens_help);
  // Loads it, and notes what loading says.
  ItemExchange load() const;
  // The tokens of the whole text. Throws Error, as where the model was calibrated on it.
  std::vector<TokenId> ids(const LoadedModel& loaded) const;
};

// "0.13 [0.12, 0.141]".
std::string text_of_estimate(const statistics::Estimate& estimate, double scale = 1);
// {"value", "low", "high"}, null where there is no interval.
nlohmann::ordered_json estimate_json(const statistics::Estimate& estimate);
// "1.25 MiB".
std::string text_of_bytes(Bytes bytes);

}  // namespace assay::cli

// How `assay mix` shows what it found: the recipe, a table, what the tests say, JSON.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "assay/studies/mix.h"

namespace assay::cli {

struct MixView {
  const Mix& mix;
  const MixOptions& options;
  std::string baseline;  // the precision that KL is from
};

// "memory=700MiB,token=8ms".
std::string limits_text(const MixOptions& options);
// A recipe file, with its proof in comments.
std::string recipe_toml(const MixView& view);
std::string mix_table_text(const MixView& view);
// Whether the mix beats every uniform format of at most its size, what its limits became on the tokens held
// out, whether the sum of the parts misled, and what was not proven: a line each.
std::string mix_sentences(const MixView& view);
// A sentence for each candidate that is not offered to all parts.
std::vector<std::string> left_out_notes(const MixView& view);
// Whether `assay quantize` writes the recipe as a GGUF file.
bool fits_gguf(const MixView& view);
nlohmann::ordered_json mix_json(const MixView& view, const std::string& model);

}  // namespace assay::cli

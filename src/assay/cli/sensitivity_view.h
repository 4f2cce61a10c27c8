// What `assay sensitivity` shows: tables, a heat map, JSON, and all of it as a document.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "assay/report/document.h"
#include "assay/studies/sensitivity.h"

namespace assay::cli {

report::Table sensitivity_items(const Sensitivity& found, std::size_t shown);
// Sums by tensor class or by layer, as `title` says.
report::Table sensitivity_sums(const std::string& title, const Sensitivity& found,
                               const std::vector<SensitivityRow>& rows);
// Whether the parts add up.
std::string sensitivity_sentence(const Sensitivity& found);
// KL of each item, by layer down and tensor class across, in the order of the model.
report::Plot sensitivity_map(const Sensitivity& found, const std::string& model);
report::Document sensitivity_document(const Sensitivity& found, const std::string& model);
nlohmann::ordered_json sensitivity_json(const Sensitivity& found, const std::string& model);

}  // namespace assay::cli

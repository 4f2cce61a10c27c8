// Results as JSON: what results.json, journals and the answers of workers hold.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "assay/base/json_reader.h"
#include "assay/results/results.h"

namespace assay {

// Sentences are added by report/written_results.h: these write facts alone.

// An array of {"kind", "text", "value", "limit", "remedy"}; the remedy follows from the kind and is not read
// back. A plain string, as earlier files have it, is of kind "other".
nlohmann::ordered_json to_json(const std::vector<Warning>& warnings);
// {"low": ..., "high": ..., "level": ...}, or null where there is none.
nlohmann::ordered_json interval_to_json(const std::optional<statistics::Interval>& interval);
nlohmann::ordered_json to_json(const Comparison& comparison);
nlohmann::ordered_json to_json(const NoiseEstimate& noise);
nlohmann::ordered_json to_json(const Setting& setting);
nlohmann::ordered_json to_json(const AuditRow& row);
nlohmann::ordered_json to_json(const std::vector<AuditRow>& rows);
nlohmann::ordered_json to_json(const ModelFacts& model);
nlohmann::ordered_json to_json(const Row& row);
nlohmann::ordered_json to_json(const ResultSet& results);

// What to_json() wrote, or earlier versions of it. Each throws Error naming file and path of what is wrong.
std::vector<Warning> warnings_from_json(const JsonReader& json);
std::optional<statistics::Interval> interval_from_json(const JsonReader& json);
Comparison comparison_from_json(const JsonReader& json);
NoiseEstimate noise_from_json(const JsonReader& json);
Setting setting_from_json(const JsonReader& json);
AuditRow audit_row_from_json(const JsonReader& json);
std::vector<AuditRow> audit_rows_from_json(const JsonReader& json);
ModelFacts model_facts_from_json(const JsonReader& json);
Row row_from_json(const JsonReader& json);
// `where` names the file. Reads schema 1 too, whose metrics of the roofline had other names and whose rows
// had no settings. Refuses other versions, and a document that is not a result.
ResultSet results_from_json(const nlohmann::ordered_json& json, const std::string& where);

}  // namespace assay

#include "assay/report/csv.h"

#include <algorithm>

#include "assay/base/format.h"
#include "assay/results/metric.h"

namespace assay::report {

namespace {

std::string number(double value) {
  return fmt::format("{}", value);
}

template <typename Pairs>
void add_keys(const Pairs& pairs, std::vector<std::string>& keys) {
  for (const auto& [key, value] : pairs)
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
}

std::string join(const std::vector<std::string>& parts, const char* separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string warning_texts(const Row& row) {
  std::vector<std::string> texts;
  for (const Warning& warning : row.warnings) texts.push_back(warning.text);
  return join(texts, "; ");
}

}  // namespace

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string results_csv(const ResultSet& results) {
  std::vector<std::string> parameters, tags;
  for (const Row& row : results.rows) {
    add_keys(row.parameters, parameters);
    add_keys(row.values, tags);
  }
  std::vector<std::string> line = {"scenario", "label", "status", "reason"};
  line.insert(line.end(), parameters.begin(), parameters.end());
  line.insert(line.end(), tags.begin(), tags.end());
  line.emplace_back("warnings");
  std::string csv = join(line, ",") + "\r\n";
  for (const Row& row : results.rows) {
    line = {csv_field(std::string(name_of(row.scenario))), csv_field(row.label),
            csv_field(std::string(name_of(row.status))), csv_field(row.reason)};
    for (const std::string& key : parameters) line.push_back(csv_field(row.parameter(key)));
    for (const std::string& tag : tags) {
      const Value* value = row.find(tag);
      line.push_back(value == nullptr ? "" : number(value->value));
    }
    line.push_back(csv_field(warning_texts(row)));
    csv += join(line, ",") + "\r\n";
  }
  return csv;
}

std::string to_csv(const Table& table) {
  std::string csv;
  const auto add = [&](const std::vector<std::string>& cells) {
    std::vector<std::string> fields;
    for (const std::string& cell : cells) fields.push_back(csv_field(cell));
    csv += join(fields, ",") + "\r\n";
  };
  add(table.head);
  for (const auto& row : table.rows) add(row);
  return csv;
}

std::string samples_csv(const ResultSet& results) {
  std::string csv = "scenario,label,metric,unit,index,value\r\n";
  for (const Row& row : results.rows)
    for (const auto& [tag, value] : row.values)
      for (std::size_t i = 0; i < value.samples.size(); ++i)
        csv += fmt::format("{},{},{},{},{},{}\r\n", csv_field(std::string(name_of(row.scenario))),
                           csv_field(row.label), tag, metric(tag).unit, i, number(value.samples[i]));
  return csv;
}

}  // namespace assay::report

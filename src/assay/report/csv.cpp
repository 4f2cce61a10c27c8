#include "assay/report/csv.h"

#include <algorithm>
#include <charconv>
#include <string_view>

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

std::string line_of(const std::vector<std::string>& cells) {
  std::vector<std::string> fields;
  for (const std::string& cell : cells) fields.push_back(csv_field(cell));
  return join(fields, ",") + "\r\n";
}

// What every line of a row begins with.
std::vector<std::string> row_cells(const ResultSet& results, const Row& row) {
  return {results.run_id, std::string(name_of(row.scenario)), row.label, row.parameter("configuration")};
}

// The parts of a run, as samples.csv names them; every other sampled metric is computed from these.
struct Phase {
  const char *tag, *name;
};
constexpr Phase kPhases[] = {
    {"tokenize_s", "tokenize"},
    {"time_to_first_token_s", "first token"},
    {"prefill_latency_s", "prefill"},
    {"sampling_s", "sampling"},
    {"detokenize_s", "detokenize"},
    {"total_latency_s", "total"},
    {"end_to_end_s", "end to end"},
    {"roofline_gb_s", "roofline of reading"},
    {"roofline_gflops", "roofline of computing"},
    {"thread_round_trip_us", "thread synchronization"},
};

class SampleLines {
 public:
  explicit SampleLines(const ResultSet& results) : results_(results) {
    csv_ = "run,scenario,label,configuration,process,round,phase,step,value,unit\r\n";
    for (const Row& row : results.rows) add(row);
  }
  std::string take() { return std::move(csv_); }

 private:
  void add(const Row& row) {
    head_ = row_cells(results_, row);
    if (!row.places.empty())
      add_runs(row);
    else  // not of runs, or of an earlier version: the metrics that were sampled, in order
      for (const auto& [tag, value] : row.values)
        for (std::size_t i = 0; i < value.samples.size(); ++i)
          add("", "", std::string(tag), std::to_string(i), value.samples[i], metric(tag).unit);
    if (row.losses)
      for (std::size_t i = 0; i < row.losses->sums.size(); ++i)
        add("", "", "loss of 16 tokens", std::to_string(i), row.losses->sums[i], "nats");
  }

  void add_runs(const Row& row) {
    for (std::size_t i = 0; i < row.places.size(); ++i) {
      const std::string process = std::to_string(row.places[i].process),
                        round = std::to_string(row.places[i].round);
      for (const Phase& phase : kPhases) {
        const Value* value = row.find(phase.tag);
        if (value != nullptr && i < value->samples.size())
          add(process, round, phase.name, "", value->samples[i], metric(phase.tag).unit);
      }
      if (i < row.step_s.size())
        for (std::size_t step = 0; step < row.step_s[i].size(); ++step)
          add(process, round, "decode step", std::to_string(step), row.step_s[i][step], "s");
    }
  }

  void add(const std::string& process, const std::string& round, const std::string& phase,
           const std::string& step, double value, std::string_view unit) {
    std::vector<std::string> cells = head_;
    cells.insert(cells.end(), {process, round, phase, step, number(value), std::string(unit)});
    csv_ += line_of(cells);
  }

  const ResultSet& results_;
  std::vector<std::string> head_;
  std::string csv_;
};
static_assert(LossBlocks::kTokens == 16, "a phase is named after it");

// Whether a spreadsheet would compute the cell: "CSV Injection", OWASP. Numbers, also with a unit of one mark
// behind them, are none.
bool is_formula(const std::string& text) {
  if (text.size() < 2 || std::string_view("=+-@\t\r").find(text.front()) == std::string_view::npos)
    return false;
  if (text.front() != '-' && text.front() != '+') return true;
  double value = 0;
  const char *first = text.data() + 1, *last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, value);
  const bool is_number =
      error == std::errc() && *first != '-' && (end == last || (end + 1 == last && *end == '%'));
  return !is_number;
}

}  // namespace

std::string csv_field(const std::string& original) {
  // A file that is shown on a terminal must not steer it.
  std::string text;
  if (is_formula(original)) text = "'";
  for (const char c : original) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\r' && c != '\t') || byte == 0x7f)
      text += fmt::format("\\x{:02x}", byte);
    else
      text += c;
  }
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string results_csv(const ResultSet& results) {
  std::string csv =
      "run,scenario,label,configuration,status,metric,value,low,high,level,n,processes,statistic,unit,"
      "reason\r\n";
  for (const Row& row : results.rows) {
    const auto add = [&](const std::vector<std::string>& more) {
      std::vector<std::string> cells = row_cells(results, row);
      cells.emplace_back(name_of(row.status));
      cells.insert(cells.end(), more.begin(), more.end());
      csv += line_of(cells);
    };
    for (const auto& [tag, value] : row.values) {
      const auto& interval = value.interval;
      add({tag, number(value.value), interval ? number(interval->low) : "",
           interval ? number(interval->high) : "", interval ? number(interval->level) : "",
           std::to_string(value.n()), value.samples.empty() ? "" : std::to_string(row.processes()),
           value.statistic, std::string(metric(tag).unit), ""});
    }
    for (const auto& [tag, reason] : row.absent)
      add({tag, "", "", "", "", "0", "", "", std::string(metric(tag).unit), reason});
    if (row.status != RowStatus::ok) add({"", "", "", "", "", "0", "", "", "", row.reason});
  }
  return csv;
}

std::string wide_results_csv(const ResultSet& results) {
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
  return SampleLines(results).take();
}

}  // namespace assay::report

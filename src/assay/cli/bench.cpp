// assay bench: speed alone, beside what the machine could reach.
#include "assay/studies/bench.h"

#include <algorithm>
#include <any>
#include <map>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/measure.h"
#include "assay/cli/study_flags.h"
#include "assay/harness/sweep.h"
#include "assay/machine/machine_json.h"
#include "assay/report/csv.h"
#include "assay/report/prose/prose.h"
#include "assay/report/table.h"
#include "assay/results/results_json.h"
#include "assay/statistics/statistics.h"

namespace assay::cli {

namespace {

using OrderedJson = nlohmann::ordered_json;

struct BenchFlags {
  MeasureFlags measure;
  StudyFlags study;
  std::string format = "table";
};

// A figure that is not known is null.
OrderedJson known(double value) {
  return value > 0 ? OrderedJson(value) : OrderedJson();
}

OrderedJson json_of(const BenchRow& row) {
  return {{"test", row.test},
          {"status", name_of(row.status)},
          {"reason", row.reason},
          {"model", row.model},
          {"parameters", row.parameters},
          {"weight_bytes", row.weight_bytes},
          {"precision", row.precision},
          {"device", row.device},
          {"kernels", row.kernels},
          {"isa", row.isa},
          {"tuning", row.tuning},
          {"threads", row.threads},
          {"batch", row.spec.batch},
          {"prompt_tokens", row.spec.prompt_tokens},
          {"new_tokens", row.spec.new_tokens},
          {"depth", row.spec.depth},
          {"samples_s", row.samples_s},
          {"median_s", known(row.median_s)},
          {"spread", row.spread ? OrderedJson(*row.spread) : OrderedJson()},
          {"tokens_per_sec", known(row.tokens_per_sec)},
          {"bytes_per_token", known(row.bytes_per_token)},
          {"flops_per_token", known(row.flops_per_token)},
          {"achieved_gb_s", known(row.achieved_gb_s)},
          {"achieved_gflops", known(row.achieved_gflops)},
          {"roofline_gb_s", known(row.roofline_gb_s)},
          {"roofline_gflops", known(row.roofline_gflops)},
          {"percent_of_roofline", known(row.percent_of_roofline)},
          {"bound", row.bound},
          {"warnings", to_json(row.warnings)}};
}

OrderedJson json_of(const std::vector<BenchRow>& rows, const ResultSet& results) {
  const Build& build = results.build;
  OrderedJson json{
      {"status", name_of(results.status)},
      {"build", {{"version", build.version}, {"compiler", build.compiler}, {"type", build.type}}},
      {"machine", to_json(results.machine)},
      {"rows", OrderedJson::array()}};
  for (const BenchRow& row : rows) json["rows"].push_back(json_of(row));
  return json;
}

std::string jsonl_of(const std::vector<BenchRow>& rows) {
  std::string text;
  for (const BenchRow& row : rows)
    text += json_of(row).dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
  return text;
}

// A line per row with the keys of the JSON; lists are joined by "; ".
std::string csv_of(const std::vector<BenchRow>& rows) {
  const auto cell = [](const OrderedJson& value) {
    if (value.is_null()) return std::string();
    if (value.is_string()) return report::csv_field(value.get<std::string>());
    if (!value.is_array()) return value.dump();
    std::vector<std::string> parts;
    for (const OrderedJson& part : value)
      parts.push_back(part.is_string()   ? part.get<std::string>()
                      : part.is_object() ? part.at("text").get<std::string>()
                                         : part.dump());
    return report::csv_field(fmt::format("{}", fmt::join(parts, "; ")));
  };
  const auto line = [](const std::vector<std::string>& cells) {
    return fmt::format("{}\r\n", fmt::join(cells, ","));
  };
  std::vector<std::string> keys;
  const OrderedJson head = json_of(BenchRow{});
  for (const auto& [key, value] : head.items()) keys.push_back(key);
  std::string text = line(keys);
  for (const BenchRow& row : rows) {
    const OrderedJson json = json_of(row);
    std::vector<std::string> cells;
    for (const std::string& key : keys) cells.push_back(cell(json[key]));
    text += line(cells);
  }
  return text;
}

std::string shown(const BenchRow& row, double value, int decimals) {
  return row.status == RowStatus::ok && value > 0 ? fmt::format("{:.{}f}", value, decimals) : "-";
}

report::Table table_of(const std::vector<BenchRow>& rows) {
  report::Table table{{"Test", "Precision", "Kernels", "Threads", "Median (ms)", "Spread (%)", "Tokens/s",
                       "GB/s", "GFLOP/s", "Bound", "Roofline (%)"},
                      {false, false, false, true, true, true, true, true, true, false, true},
                      {},
                      {0, 0, 7, 5, 1, 4, 0, 3, 6, 5, 2}};
  for (const BenchRow& row : rows)
    table.rows.push_back(
        {row.status == RowStatus::ok ? row.test : row.test + ": error: " + report::one_line(row.reason, 120),
         row.precision, row.kernels, std::to_string(row.threads), shown(row, row.median_s * 1e3, 2),
         row.spread ? fmt::format("{:.1f}", *row.spread * 100) : "-", shown(row, row.tokens_per_sec, 1),
         shown(row, row.achieved_gb_s, 1), shown(row, row.achieved_gflops, 1), row.bound,
         shown(row, row.percent_of_roofline, 1)});
  const bool have_one_model = std::all_of(
      rows.begin(), rows.end(), [&](const BenchRow& row) { return row.model == rows.front().model; });
  if (have_one_model) return table;
  table.head.insert(table.head.begin(), "Model");
  table.is_number.insert(table.is_number.begin(), false);
  table.rank.insert(table.rank.begin(), 0);
  for (std::size_t i = 0; i < rows.size(); ++i) table.rows[i].insert(table.rows[i].begin(), rows[i].model);
  return table;
}

std::string scaled(double value, double unit, const char* larger, const char* smaller) {
  return value >= unit ? fmt::format("{:.2f} {}", value / unit, larger)
                       : fmt::format("{:.2f} {}", value / (unit == 1e9 ? 1e6 : 1 << 20), smaller);
}

// The columns of llama-bench: mean and sample standard deviation of the repeats' rates.
std::string llama_bench_of(const std::vector<BenchRow>& rows) {
  report::Table table{{"model", "size", "params", "backend", "threads", "test", "t/s"},
                      {false, true, true, false, true, true, true},
                      {}};
  for (const BenchRow& row : rows) {
    std::vector<double> rates;
    for (const double s : row.samples_s) rates.push_back(static_cast<double>(row.spec.tokens()) / s);
    table.rows.push_back({row.model + " " + row.precision,
                          scaled(static_cast<double>(row.weight_bytes), 1 << 30, "GiB", "MiB"),
                          scaled(static_cast<double>(row.parameters), 1e9, "B", "M"), "CPU",
                          std::to_string(row.threads), row.test,
                          row.status == RowStatus::ok
                              ? fmt::format("{:.2f} ± {:.2f}", statistics::mean(rates),
                                            statistics::standard_deviation(rates).value_or(0))
                              : "error: " + report::one_line(row.reason, 120)});
  }
  return report::to_markdown(table);
}

std::string text_of(const std::string& format, const std::vector<BenchRow>& rows) {
  if (format == "jsonl") return jsonl_of(rows);
  if (format == "csv") return csv_of(rows);
  if (format == "md") return report::to_markdown(table_of(rows));
  if (format == "table") return report::to_text(table_of(rows), table_width());
  return llama_bench_of(rows);
}

// Each sentence once, behind the tests that it is said of, unless it is said of all.
std::vector<std::string> warnings_of(const std::vector<BenchRow>& rows) {
  std::vector<std::string> sentences;
  std::map<std::string, std::vector<std::string>> tests_of;
  std::map<std::string, std::size_t> counts;
  for (const BenchRow& row : rows)
    for (const Warning& warning : row.warnings) {
      const std::string sentence = report::sentence_of(warning);
      if (counts[sentence]++ == 0) sentences.push_back(sentence);
      std::vector<std::string>& tests = tests_of[sentence];
      if (std::find(tests.begin(), tests.end(), row.test) == tests.end()) tests.push_back(row.test);
    }
  for (std::string& sentence : sentences)
    if (rows.size() == 1 || counts[sentence] < rows.size())
      sentence = fmt::format("{}: {}", fmt::join(tests_of[sentence], ", "), sentence);
  return sentences;
}

void show(const ResultSet& results, const BenchFlags& flags) {
  const std::vector<BenchRow> rows = bench_rows(results.rows, results.model);
  const std::string format = flags.measure.output.is_json ? "json" : flags.format;
  if (format == "json")
    answer_json("bench", json_of(rows, results));
  else
    answer(text_of(format, rows));
  if (!flags.measure.output.is_quiet)
    for (const std::string& warning : warnings_of(rows)) note("warning: " + warning);
  if (results.status == RunStatus::interrupted)
    note("interrupted: tests that are not listed were not measured, or not to their end");
}

PlannedStudy plan_of(const BenchFlags& flags) {
  const std::vector<std::string> formats{"table", "md", "csv", "json", "jsonl", "llama-bench"};
  if (std::find(formats.begin(), formats.end(), flags.format) == formats.end())
    throw UsageError("--format: expected one of {}, found '{}'", fmt::join(formats, ", "), flags.format);
  const std::string& precisions = flags.measure.model.precision;
  if (!precisions.empty() && words_of(precisions).empty())
    throw UsageError("--precision: expected names joined by commas, found '{}'", precisions);
  PlannedStudy planned =
      flags.study.plan(precisions.empty() ? words_of(std::string(kAutoPrecision)) : words_of(precisions))
          .front();
  const auto& options = std::any_cast<const BenchOptions&>(planned.options);
  const auto asks_for_any = [](const std::vector<std::int64_t>& lengths) {
    return std::any_of(lengths.begin(), lengths.end(), [](std::int64_t length) { return length > 0; });
  };
  if (!asks_for_any(options.prompt_tokens) && !asks_for_any(options.new_tokens))
    throw UsageError("--n-prompt and --n-gen: every length is 0, so there is nothing to measure");
  return planned;
}

int bench(const BenchFlags& flags, const CLI::App& command, const std::string& command_line) {
  const PlannedStudy planned = plan_of(flags);
  Measuring measuring(flags.measure, command, command_line);
  const std::vector<Case> cases = cases_of(measuring.experiment(), {planned});
  ExperimentContext& context = measuring.experiment();
  context.sweep.repeats = context.sweep.repeats.value_or(kBenchRepeats);
  context.sweep.processes = 1;
  if (flags.measure.is_dry_run) return measuring.show_plan(cases);
  context.baseline = cases.front().configuration;
  ResultSet results = measuring.new_results();
  if (!flags.measure.folder.empty()) measuring.begin();
  if (!flags.measure.output.is_quiet)
    note(fmt::format("Loaded: {} | device={} | dtype={}", results.model.id,
                     context.sessions->facts(context.baseline).device, results.model.dtype));
  results.add(run_studies(context, {planned}));
  return measuring.finish(std::move(results), [&](const ResultSet& all, const report::WrittenReports&,
                                                  const std::exception_ptr& unwritten) {
    show(all, flags);
    if (unwritten) std::rethrow_exception(unwritten);
  });
}

// Flags of other studies that a test has no use for: it is one case in one process.
void remove_flags_of_sweeps(CLI::App& command) {
  for (const char* flag : {"--processes", "--narrow", "--time", "--seed", "--budget", "--choice"})
    command.remove_option(command.get_option(flag));
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code, const std::string& command_line) {
  auto flags = std::make_shared<BenchFlags>();
  const Study& study = study_named("bench");
  CLI::App* command = app.add_subcommand(study.command, study.description);
  flags->measure.is_of_speed_alone = flags->measure.takes_models = true;
  flags->measure.add_to(*command, true);
  remove_flags_of_sweeps(*command);
  flags->study.add_to(*command, {&study});
  command->get_option("--precision")
      ->description(
          "Precisions, joined by commas; nf4+head or nf4+head:int8 quantizes the LM head too, "
          "nf4+activations:int8 the activations; stored: as a quantized model holds its weights [float32, or "
          "as the checkpoint is]");
  command->get_option("--repeats")
      ->description(fmt::format("Timed repeats of each test [{}]", kBenchRepeats));
  command->get_option("--max-time")
      ->description("Seconds after which a test starts no further repeat; 0: no limit [0]");
  command->get_option("--max-memory")
      ->description("Memory limit of the worker, in MiB, predicted [no limit]");
  command->add_option(
      "--format", flags->format,
      "Output format: table (as wide as the terminal), md, csv, json, jsonl or llama-bench [table]");
  command->footer("Example: " + study.example);
  command->callback([flags, command, command_line, &exit_code] {
    try {
      exit_code = bench(*flags, *command, command_line);
    } catch (const FieldError& error) {
      throw flags->study.named_by_flag(error);
    }
  });
}

}  // namespace assay::cli

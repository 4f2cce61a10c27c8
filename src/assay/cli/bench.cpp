// assay bench: speed alone, beside what the machine could reach.
#include "assay/studies/bench.h"
#include "assay/report/prose/prose.h"

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
#include "assay/machine/machine.h"
#include "assay/machine/machine_json.h"
#include "assay/report/csv.h"
#include "assay/report/table.h"
#include "assay/results/results_json.h"
#include "assay/statistics/statistics.h"

namespace assay::cli {

namespace {

using OrderedJson = nlohmann::ordered_json;

struct BenchFlags {
  ModelFlags model;
  OutputFlags output;
  BenchOptions options;
  double max_time_s = 0;  // 0: no limit
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

OrderedJson json_of(const std::vector<BenchRow>& rows, bool is_complete) {
  const Build build = build_facts();
  OrderedJson json{
      {"status", name_of(is_complete ? RunStatus::complete : RunStatus::interrupted)},
      {"build", {{"version", build.version}, {"compiler", build.compiler}, {"type", build.type}}},
      {"machine", to_json(read_machine())},
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

int run_bench(const BenchFlags& flags) {
  const std::vector<std::string> formats{"table", "md", "csv", "json", "jsonl", "llama-bench"};
  if (std::find(formats.begin(), formats.end(), flags.format) == formats.end())
    throw UsageError("--format: expected one of {}, found '{}'", fmt::join(formats, ", "), flags.format);
  BenchOptions options = flags.options;
  options.precisions.clear();
  for (const std::string& name : words_of(flags.model.precision))  // each once
    if (std::find(options.precisions.begin(), options.precisions.end(), name) == options.precisions.end())
      options.precisions.push_back(name);
  if (options.precisions.empty())
    throw UsageError("--precision: expected names joined by commas, found '{}'", flags.model.precision);
  const auto asks_for_any = [](const std::vector<std::int64_t>& lengths) {
    return std::any_of(lengths.begin(), lengths.end(), [](std::int64_t length) { return length > 0; });
  };
  if (!asks_for_any(options.prompt_tokens) && !asks_for_any(options.new_tokens))
    throw UsageError("--n-prompt and --n-gen: every length is 0, so there is nothing to measure");
  if (flags.max_time_s < 0)
    throw UsageError("--max-time: expected 0 or more seconds, found {}", flags.max_time_s);
  if (flags.max_time_s > 0) options.max_time_s = flags.max_time_s;
  flags.model.configuration();  // what is wrong with the list or its flags is said before any loading
  Progress progress(flags.output.shows_progress());
  options.on_progress = [&](const std::string& now, std::int64_t done, std::int64_t all) {
    progress.show(fmt::format("[{}/{}] {}", done + 1, all, now));
  };
  options.should_stop = is_interrupted;
  const auto load = [&](const std::string& precision, std::optional<int> threads) {
    RunConfig spec = run_config_from_text(precision, flags.model.config);
    if (threads) spec.threads = threads;
    progress.clear();
    LoadedModel loaded = load_model_and_tokenizer(candidates_of(flags.model.model), spec,
                                                  {.needs_tokenizer = false, .pins_caller = true});
    if (!flags.output.is_quiet) note(loaded.load_line());
    return loaded;
  };
  const std::vector<BenchRow> rows = run_bench(load, options);
  progress.clear();
  const std::string format = flags.output.is_json ? "json" : flags.format;
  if (format == "json")
    answer_json(json_of(rows, !is_interrupted()));
  else
    answer(format == "jsonl"   ? jsonl_of(rows)
           : format == "csv"   ? csv_of(rows)
           : format == "md"    ? report::to_markdown(table_of(rows))
           : format == "table" ? report::to_text(table_of(rows), terminal_width())
                               : llama_bench_of(rows));
  if (!flags.output.is_quiet)
    for (const BenchRow& row : rows)
      for (const Warning& warning : row.warnings)
        note(fmt::format("warning: {}: {}", row.test, report::sentence_of(warning)));
  if (is_interrupted()) {
    note("interrupted: tests that are not listed were not measured, or not to their end");
    return kInterrupted;
  }
  return std::any_of(rows.begin(), rows.end(),
                     [](const BenchRow& row) { return row.status != RowStatus::ok; })
             ? kSomeCasesFailed
             : 0;
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command = app.add_subcommand(
      "bench", "Measure prefill and decode speed as llama-bench does, beside the rooflines");
  command->add_option("MODEL", flags->model.model, "Model: a folder, a Hugging Face cache entry or demo")
      ->required();
  BenchOptions& options = flags->options;
  add_whole_list(*command, "-p,--n-prompt", options.prompt_tokens,
                 "Prompt lengths to prefill, in tokens, joined by commas; 0: none [512]");
  add_whole_list(*command, "-n,--n-gen", options.new_tokens,
                 "Numbers of tokens to decode, joined by commas; 0: none [128]");
  add_whole_list(*command, "-d,--n-depth", options.depths,
                 "Numbers of tokens already in the KV cache, joined by commas [0]");
  add_whole_list(*command, "-b,--batch-size", options.batches, "Batch sizes, joined by commas [1]", 1, 4096);
  add_whole(*command, "-r,--repeats", options.repeats, "Timed repeats of each test [5]", 1);
  add_real(*command, "--max-time", flags->max_time_s,
           "Seconds after which a test starts no further repeat; 0: no limit [0]");
  add_whole_list(*command, "-t,--threads", options.threads,
                 "Numbers of threads, joined by commas [one for each core this process may use]", 1, 1024);
  command
      ->add_option("--precision", flags->model.precision,
                   "Precisions, joined by commas; nf4+head or nf4+head:int8 quantizes the LM head too, "
                   "nf4+activations:int8 the activations [float32, or as the "
                   "checkpoint is]")
      ->type_name("LIST");
  flags->model.add_fields_but(*command, {"threads"});
  command->add_option(
      "--format", flags->format,
      "Output format: table (as wide as the terminal), md, csv, json, jsonl or llama-bench [table]");
  flags->output.add_to(*command);
  command->footer("Example: assay bench demo -p 128,512 -n 64 -d 0,256 --precision float32,bfloat16");
  command->callback([flags, &exit_code] { exit_code = run_bench(*flags); });
}

}  // namespace assay::cli

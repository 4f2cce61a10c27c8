// assay verify: are somebody's results reproduced here?
#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/format.h"
#include "assay/base/process.h"
#include "assay/checkpoint/source.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
#include "assay/report/files.h"
#include "assay/report/prose/prose.h"
#include "assay/report/table.h"
#include "assay/results/choice_json.h"
#include "assay/results/metric.h"
#include "assay/results/verify.h"
#include "assay/session/load_parts.h"

namespace assay::cli {

namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr int kDiffers = 4;

struct VerifyFlags {
  std::string file, with, folder, model;
  std::vector<std::string> rows;
  double drift_percent = 100 * kDrift;
  OutputFlags output;
};

// The studies of `assay run`, each with the scenarios of its rows.
struct Part {
  std::string_view study;
  std::vector<Scenario> scenarios;
};
const std::vector<Part>& skippable_parts() {
  static const std::vector<Part> parts = {
      {"noise", {Scenario::noise}},
      {"trade-off", {Scenario::tradeoff}},
      {"lengths", {Scenario::lengths}},
      {"ablation", {Scenario::cache, Scenario::padding, Scenario::step_times}},
      {"batches", {Scenario::batches}},
      {"batched-precisions", {Scenario::batched_precisions}},
      {"edge", {Scenario::edge_prompts}},
      {"perplexity", {Scenario::perplexity}},
      {"divergence", {Scenario::divergence}},
      {"task", {Scenario::task}},
  };
  return parts;
}

bool is_chosen(const Row& row, const std::vector<std::string>& wanted) {
  if (row.scenario == Scenario::step_times) return false;  // made of the runs of other rows
  return wanted.empty() || std::any_of(wanted.begin(), wanted.end(), [&](const std::string& name) {
           return name == row.label || name == name_of(row.scenario) ||
                  name == row.parameter("configuration");
         });
}

std::vector<std::string> names_of_rows(const ResultSet& results) {
  std::vector<std::string> names;
  for (const Row& row : results.rows)
    for (const std::string& name :
         {row.label, std::string(name_of(row.scenario)), row.parameter("configuration")})
      if (!name.empty()) names.push_back(name);
  return names;
}

// The rows that are to be verified, and no others. Throws UsageError for a name that no row has.
ResultSet chosen_rows(ResultSet results, const std::vector<std::string>& wanted) {
  for (const std::string& name : wanted)
    if (std::none_of(results.rows.begin(), results.rows.end(),
                     [&](const Row& row) { return is_chosen(row, {name}); }))
      throw UsageError(
          "--rows: no row, scenario or configuration of the results is called '{}': the nearest is '{}'",
          name, nearest_name(name, names_of_rows(results)));
  std::erase_if(results.rows, [&](const Row& row) { return !is_chosen(row, wanted); });
  if (results.rows.empty()) throw Error("the results hold no row to verify");
  return results;
}

// The words behind "assay" that name the command: {"run"}, {"sweep", "lengths"}.
std::vector<std::string> command_of(const ResultSet& results, const CLI::App& app) {
  std::vector<std::string> words, found;
  for (std::size_t at = 0; at < results.command.size();) {
    const std::size_t space = std::min(results.command.find(' ', at), results.command.size());
    words.push_back(results.command.substr(at, space - at));
    at = space + 1;
  }
  const CLI::App* command = &app;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto subs =
        command->get_subcommands([&](const CLI::App* sub) { return sub->get_name() == words[i]; });
    if (subs.empty()) break;
    command = subs.front();
    found.push_back(words[i]);
  }
  if (found.empty() || command->get_option_no_throw("--output") == nullptr ||
      command->get_option_no_throw("--config") == nullptr)
    throw Error("the results do not name a command that can be repeated: '{}'",
                results.command.substr(0, 80));
  return found;
}

// The studies that have none of the rows that are wanted, and those that are skipped already.
std::vector<std::string> skipped_for(const ResultSet& results, std::vector<std::string> skipped) {
  for (const Part& part : skippable_parts()) {
    const bool is_needed = std::any_of(results.rows.begin(), results.rows.end(), [&](const Row& row) {
      return std::find(part.scenarios.begin(), part.scenarios.end(), row.scenario) != part.scenarios.end();
    });
    if (!is_needed && std::find(skipped.begin(), skipped.end(), part.study) == skipped.end())
      skipped.emplace_back(part.study);
  }
  return skipped;
}

// What the run chose, without the studies that are not repeated: its predicted time is that of the others.
Choice choice_without(Choice choice, const std::vector<std::string>& skipped) {
  std::erase_if(choice.studies, [&](const ChosenStudy& study) {
    return std::find(skipped.begin(), skipped.end(), study.name) != skipped.end();
  });
  return choice;
}

// The flags of the run as its configuration file would hold them; `results` has the chosen rows alone.
OrderedJson flags_of(const ResultSet& results, const VerifyFlags& flags, bool is_run) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [name, value] : results.configuration)
    if (name.rfind("--", 0) == 0 && name != "--limit") {
      const bool is_list = value.size() > 1 && value.front() == '[' && value.back() == ']';
      const OrderedJson list = is_list ? OrderedJson::parse(value, nullptr, false) : OrderedJson();
      json[name.substr(2)] = list.is_array() ? list : OrderedJson(value);
    }
  if (!flags.model.empty()) json["model"] = flags.model;
  std::vector<std::string> skipped;
  if (is_run && !flags.rows.empty()) {
    skipped = skipped_for(results, words_of(json.value("skip", "")));
    if (!skipped.empty()) json["skip"] = fmt::format("{}", fmt::join(skipped, ","));
  }
  if (results.choice) json["choice"] = to_json(choice_without(*results.choice, skipped)).dump();
  return json;
}

// The model that the run is repeated with: where it was or is said to be, and the same. Throws Error.
void check_model(const ResultSet& theirs, const VerifyFlags& flags, const OrderedJson& json) {
  const std::string named = json.value("model", theirs.model.id);
  const auto source = [&] {
    try {
      return first_candidate(candidates_of(named), [](const std::string& candidate) {
        return open_source(locate_model(candidate));
      });
    } catch (const Error& error) {
      throw Error("the model of these results cannot be read: {}{}", error.what(),
                  flags.model.empty() ? "; --model-path says where it lies here" : "");
    }
  }();
  if (theirs.model.sha256.empty()) return;
  if (const std::string hash = source->content_hash(); hash != theirs.model.sha256)
    throw Error("{}: expected the model of these results, whose SHA-256 is {}, found another of {}", named,
                theirs.model.sha256, hash);
}

// A folder that is removed where nobody asked to keep it.
class RunFolder {
 public:
  explicit RunFolder(const std::string& asked) {
    if (!asked.empty()) {
      path_ = asked;
      return;
    }
    std::string name = (fs::temp_directory_path() / "assay-verify-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw Error("{}: cannot make a temporary folder", name);
    path_ = name;
    is_temporary_ = true;
  }
  ~RunFolder() {
    std::error_code ignored;
    if (is_temporary_) fs::remove_all(path_, ignored);
  }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  bool is_temporary_ = false;
};

// Repeats the run in a process of its own, as its user would.
ResultSet repeated(const ResultSet& theirs, const VerifyFlags& flags, const CLI::App& app) {
  const std::vector<std::string> command = command_of(theirs, app);
  if (!flags.folder.empty()) check_output_folder(flags.folder);
  OrderedJson flags_of_run = flags_of(theirs, flags, command.front() == "run");
  check_model(theirs, flags, flags_of_run);
  const RunFolder own(""), folder(flags.folder);
  const fs::path config = own.path() / "verify.json";
  std::vector<std::string> words{own_program()};
  words.insert(words.end(), command.begin(), command.end());
  // As a word, since JSON holds no name that is not UTF-8.
  if (!flags.model.empty()) {
    words.push_back(flags.model);
    flags_of_run.erase("model");
  }
  write_file_atomically(config, flags_of_run.dump(1) + "\n");
  for (const std::string& word : {std::string("--config"), config.string(), std::string("--output"),
                                  folder.path().string(), std::string("--json")})
    words.push_back(word);
  if (flags.output.is_quiet) words.emplace_back("--quiet");
  ChildProcess child(words);
  ChildProcess::Answer answer;
  do answer = child.read_line(Seconds{0}, is_interrupted);
  while (answer.end == ChildProcess::End::line);
  if (answer.end == ChildProcess::End::stopped) throw Error("interrupted while the run was repeated");
  const std::string end = child.end();
  if (const fs::path file = folder.path() / "results.json"; fs::exists(file))
    return report::read_results(file);
  throw Error("the run could not be repeated: `assay {}` {}", fmt::join(command, " "), end);
}

std::string shown(const VerifiedFigure& figure) {
  if (figure.metric == "ids") return figure.outcome == Outcome::reproduced ? "equal" : "differ";
  if (figure.comparison && figure.comparison->interval)
    return fmt::format("{:.3g}x [{:.3g}, {:.3g}]", figure.comparison->ratio, figure.comparison->interval->low,
                       figure.comparison->interval->high);
  if (figure.theirs == figure.ours) return "equal";
  return fmt::format("{:.6g} there, {:.6g} here", figure.theirs, figure.ours);
}

std::string title_of(const VerifiedFigure& figure) {
  return figure.metric == "ids" ? "Generated ids" : std::string(metric(figure.metric).title);
}

std::string word_of(Outcome outcome) {
  return std::string(outcome == Outcome::cannot_tell ? name_of(Verdict::cannot_tell) : name_of(outcome));
}

OrderedJson to_json(const Verification& found) {
  OrderedJson rows = OrderedJson::array();
  for (const VerifiedRow& row : found.rows) {
    OrderedJson figures = OrderedJson::array();
    for (const VerifiedFigure& figure : row.figures) {
      OrderedJson json{
          {"metric", figure.metric}, {"outcome", name_of(figure.outcome)}, {"reason", figure.reason}};
      if (figure.metric != "ids") {
        json["theirs"] = figure.theirs;
        json["ours"] = figure.ours;
      }
      if (figure.comparison && figure.comparison->interval) {
        json["ratio"] = figure.comparison->ratio;
        json["interval"] = {figure.comparison->interval->low, figure.comparison->interval->high};
      }
      figures.push_back(std::move(json));
    }
    rows.push_back({{"scenario", name_of(row.scenario)},
                    {"label", row.label},
                    {"configuration", row.configuration},
                    {"outcome", name_of(row.outcome())},
                    {"reason", row.reason},
                    {"figures", figures}});
  }
  return {{"outcome", name_of(found.outcome())},
          {"unlike", found.unlike},
          {"detectable_difference", found.detectable_difference},
          {"rows", rows}};
}

void answer_rows(const Verification& found) {
  report::Table table{{"Scenario", "Case", "Figure", "Here against there", "Outcome"},
                      {false, false, false, false, false},
                      {},
                      {0, 0, 0, 1, 0}};
  std::vector<std::string> notes;
  std::size_t reproduced = 0;
  for (const VerifiedRow& row : found.rows) {
    const std::string scenario(name_of(row.scenario));
    reproduced += row.outcome() == Outcome::reproduced ? 1 : 0;
    if (row.figures.empty())
      table.rows.push_back({scenario, row.label, "-", "-", word_of(Outcome::cannot_tell)});
    if (!row.reason.empty()) notes.push_back(fmt::format("{}, {}: {}.", scenario, row.label, row.reason));
    for (const VerifiedFigure& figure : row.figures) {
      table.rows.push_back({scenario, row.label, title_of(figure), shown(figure), word_of(figure.outcome)});
      if (!figure.reason.empty())
        notes.push_back(fmt::format("{}, {}, {}: {}.", scenario, row.label, title_of(figure), figure.reason));
    }
  }
  answer_text(report::to_text(table, table_width()));
  for (const std::string& line : found.unlike) answer_text(line + ".\n");
  for (const std::string& line : notes) answer_text(line + "\n");
  if (found.detectable_difference > 0)
    answer_text(fmt::format("A change of speed beyond {:.2g} % would have been found nine in ten times.\n",
                            100 * found.detectable_difference));
  answer_text(fmt::format("{} of {} reproduced.\n", reproduced,
                          counted(static_cast<std::int64_t>(found.rows.size()), "row")));
}

int verify_results(const VerifyFlags& flags, const CLI::App& app) {
  if (flags.drift_percent < 0) throw UsageError("--drift: expected 0 or more, found {}", flags.drift_percent);
  if (!flags.with.empty() && !flags.folder.empty())
    throw UsageError("--against and --output exclude each other: nothing is run");
  const ResultSet theirs = chosen_rows(report::read_results(flags.file), flags.rows);
  const ResultSet ours = flags.with.empty() ? repeated(theirs, flags, app) : report::read_results(flags.with);
  const Verification found = verify(theirs, ours, flags.drift_percent / 100);
  if (flags.output.is_json)
    answer_json("verification", to_json(found));
  else
    answer_rows(found);
  switch (found.outcome()) {
    case Outcome::reproduced:
      return 0;
    case Outcome::differs:
      return kDiffers;
    case Outcome::cannot_tell:
      break;
  }
  return kFailed;
}

}  // namespace

void add_verify(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* command = app.add_subcommand(
      "verify", "Run rows of somebody's results again here, and say for each whether it is reproduced");
  command->add_option("RESULTS", flags->file, "The results.json of a run, or its folder")->required();
  command
      ->add_option("--rows", flags->rows,
                   "A row's label, a scenario or a configuration; repeat for more [all rows]")
      ->allow_extra_args(false)
      ->type_name("NAME");
  command->add_option("--against", flags->with,
                      "Results that were measured here already; nothing is run [the run is repeated]");
  command->add_option("--model-path", flags->model, "Where the model lies here [where it lay there]");
  add_real(*command, "--drift", flags->drift_percent,
           "Difference of speed, in %, that hours alone explain [10]");
  command->add_option("-o,--output", flags->folder, "Folder that keeps the repeated run [none]");
  flags->output.add_to(*command);
  command->footer(
      "Example: assay verify results --rows trade-off\n"
      "Exit codes: 0 reproduced, 4 a figure differs, 1 cannot tell, 2 wrong usage");
  command->callback([flags, &app, &exit_code] { exit_code = verify_results(*flags, app); });
}

}  // namespace assay::cli

// assay run --watch: what another process has measured so far, from its journal.
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/format.h"
#include "assay/base/json_reader.h"
#include "assay/base/process.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/live_screen.h"
#include "assay/cli/options.h"
#include "assay/harness/journal.h"
#include "assay/report/files.h"
#include "assay/report/render.h"
#include "assay/report/result_document.h"
#include "assay/report/written_results.h"

namespace assay::cli {

namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

// The journal as far as it is written.
struct WatchedRun {
  report::LiveTable table;
  std::string last;                   // the study that was written to last
  std::optional<double> begun_s;      // seconds since the epoch
  std::optional<double> predicted_s;  // for the whole run, where a budget was chosen
};

std::string plan_of(const std::string& text, const std::string& file) {
  const OrderedJson head = parse_ordered_json(text.substr(0, text.find('\n')), file);
  return head.is_object() ? head.value("plan", "") : "";
}

// "trade-off | ...": a study's name and the key of a case.
std::pair<std::string, std::string> parts_of(const std::string& key) {
  const std::size_t at = key.find(" | ");
  return at == std::string::npos ? std::pair(key, key) : std::pair(key.substr(0, at), key.substr(at + 3));
}

void add_entry(WatchedRun& run, const std::string& kind, const std::string& key, const JsonReader& data) {
  if (kind == "begun") {
    run.begun_s = data.number();
  } else if (kind == "budget") {
    run.predicted_s = data.at("choice").at("predicted_s").number();
  } else if (kind == "first" || kind == "sample") {
    const auto [study, rest] = parts_of(key);
    report::LiveCase& live = run.table.at(study, rest);
    run.last = study;
    if (kind == "first") {
      live.label = data.has("label") ? data.at("label").text() : rest;
      live.first_s = data.at("first_run").at("seconds").number();
    } else {
      live.seconds[{data.at("process").whole<int>(), data.at("round").whole<int>()}] =
          data.at("sample").at("total_latency_s").number();
    }
  }
}

WatchedRun read_run(const fs::path& journal) {
  WatchedRun run;
  const std::string text = read_text_file(journal);
  if (text.find('\n') == std::string::npos) return run;  // it has just begun
  read_journal(text, journal.string(), plan_of(text, journal.string()),
               [&](const std::string& kind, const std::string& key, const OrderedJson& data) {
                 add_entry(run, kind, key, JsonReader(data, journal.string()));
               });
  return run;
}

std::string status_of(const WatchedRun& run) {
  std::optional<double> left;
  if (run.begun_s && run.predicted_s) {
    const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
    left = std::max(1.0, *run.predicted_s - (now.count() - *run.begun_s));
  }
  return time_left(left) + (run.last.empty() ? "nothing is measured yet" : "now measuring: " + run.last);
}

// Whether the results are of the run that the journal is of, and not of one before it.
bool has_results(const WatchedRun& run, const fs::path& results) {
  struct stat info {};
  if (stat(results.c_str(), &info) != 0) return false;
  const auto written_s =
      static_cast<double>(info.st_mtim.tv_sec) + 1e-9 * static_cast<double>(info.st_mtim.tv_nsec);
  return !run.begun_s || written_s >= *run.begun_s;
}

// The verdicts of the report, whose comparisons are corrected together; without one, what the journal has.
int answer_ended(const std::string& folder, const fs::path& journal, const OutputFlags& output) {
  const WatchedRun run = read_run(journal);
  const fs::path file = fs::path(folder) / "results.json";
  if (!has_results(run, file)) {
    constexpr const char* kCut = "The run has ended without results; --resume continues it.";
    if (output.is_json) throw Error("{}: {}", folder, kCut);
    std::string text;
    for (const std::string& line : run.table.lines(table_width(), std::size_t{10'000})) text += line + "\n";
    answer_text(text);
    note(kCut);
    return 0;
  }
  const ResultSet results = report::read_results(file);
  if (output.is_json)
    answer_json("results", report::results_json(results));
  else
    answer_text(report::to_terminal(report::document_of(results), table_width()));
  if (!output.is_quiet)
    note(fmt::format("The run has ended; open {}.", (fs::path(folder) / "report.html").string()));
  return 0;
}

}  // namespace

int watch_run(const std::string& folder, const OutputFlags& output) {
  const fs::path journal = fs::path(folder) / "journal.jsonl";
  if (!fs::exists(journal))
    throw Error("{}: holds no journal.jsonl, which a run with --output writes", folder);
  watch_interrupts();
  LiveScreen screen(output.shows_progress());
  std::uintmax_t size = 0;
  WatchedRun run;
  while (is_folder_locked(folder) && !is_interrupted()) {
    if (const std::uintmax_t now = fs::file_size(journal); screen.is_shown() && now != size) {
      size = now;
      run = read_run(journal);
    }
    screen.show(status_of(run), run.table);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  screen.clear();
  if (is_interrupted()) return kInterrupted;
  return answer_ended(folder, journal, output);
}

}  // namespace assay::cli

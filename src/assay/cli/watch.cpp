// assay run --watch: what another process has measured so far, from its journal.
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
#include "assay/harness/journal.h"

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

}  // namespace

int watch_run(const std::string& folder) {
  const fs::path journal = fs::path(folder) / "journal.jsonl";
  if (!fs::exists(journal))
    throw Error("{}: holds no journal.jsonl, which a run with --output writes", folder);
  watch_interrupts();
  LiveScreen screen(isatty(STDERR_FILENO) == 1);
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
  run = read_run(journal);
  std::string text;
  for (const std::string& line : run.table.lines(terminal_width(), std::size_t{10'000})) text += line + "\n";
  answer_text(text);
  const fs::path report = fs::path(folder) / "report.html";
  note(fs::exists(report) ? fmt::format("The run has ended; open {}.", report.string())
                          : "The run has ended without a report; --resume continues it.");
  return 0;
}

}  // namespace assay::cli

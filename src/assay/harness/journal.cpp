#include "assay/harness/journal.h"

#include <cmath>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/json_bytes.h"
#include "assay/results/earlier_names.h"

namespace assay {

using OrderedJson = nlohmann::ordered_json;

namespace {
constexpr int kVersion = 4;
constexpr double kMostJournal_s = 1e12;

// Null where the line is not JSON.
OrderedJson parsed_line(std::string_view line) {
  try {
    return parse_ordered_json(line, "");
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

struct Journal::State {
  void read();

  std::filesystem::path file;
  std::string plan;
  bool has_resumed = false;
  std::function<TimePoint()> clock;
  TimePoint begin;
  double earlier_s = 0;
  std::map<std::pair<std::string, std::string>, std::vector<OrderedJson>> entries;  // by kind and key
  struct Close {
    void operator()(std::FILE* stream) const { std::fclose(stream); }
  };
  std::unique_ptr<std::FILE, Close> out;
};

Journal::Journal(std::filesystem::path file, const std::string& plan, bool resumes,
                 std::function<TimePoint()> clock, std::optional<TimePoint> begin)
    : state_(std::make_unique<State>()) {
  State& own = *state_;
  own.clock = std::move(clock);
  own.begin = begin.value_or(own.clock());
  own.file = std::move(file);
  own.plan = plan;
  if (resumes && std::filesystem::exists(own.file)) {
    own.read();
    own.has_resumed = true;
  } else {
    OrderedJson head{{"journal", kVersion}, {"plan", plan}};
    hide_bytes(head);
    write_file_atomically(own.file, head.dump() + "\n");
  }
  own.out.reset(std::fopen(own.file.c_str(), "ab"));
  if (own.out == nullptr)
    throw JournalError("{}: cannot be written: {}", own.file.string(), last_system_error());
}

Journal::~Journal() = default;

void Journal::State::read() {
  const std::string text = read_text_file(file);
  earlier_s = read_journal(text, file.string(), plan,
                           [&](const std::string& kind, const std::string& key, const OrderedJson& data) {
                             entries[{kind, key}].push_back(data);
                             // Configurations had other names once, which stand in keys.
                             if (const std::string now = current_name(key); now != key)
                               entries[{kind, now}].push_back(data);
                           });
  // What was cut off must not join the next line.
  const std::size_t whole = text.rfind('\n') + 1;
  if (whole < text.size()) std::filesystem::resize_file(file, whole);
}

double read_journal(
    std::string_view text, const std::string& file, const std::string& plan,
    const std::function<void(const std::string&, const std::string&, const OrderedJson&)>& on_entry) {
  const std::size_t whole = text.rfind('\n') == std::string_view::npos ? 0 : text.rfind('\n') + 1;
  std::size_t line_number = 0;
  double at_s = 0;
  for (std::size_t at = 0; at < whole;) {
    const std::size_t end = text.find('\n', at);
    ++line_number;
    OrderedJson json = parsed_line(text.substr(at, end - at));
    restore_bytes(json);
    at = end + 1;
    if (line_number == 1) {
      if (!json.is_object() || json.value("journal", OrderedJson()) != kVersion)
        throw JournalError("{}: expected a journal that this program can resume, found something else", file);
      if (json.value("plan", OrderedJson()) != plan)
        throw JournalError(
            "{}: another plan was begun here: expected the same model and options; start the run again "
            "from the beginning, or repeat it with those",
            file);
      continue;
    }
    const auto is_text = [&](const char* key) { return json.contains(key) && json.at(key).is_string(); };
    if (!json.is_object() || !is_text("kind") || !is_text("key") || !json.contains("data"))
      throw JournalError("{}: line {}: expected an entry of a journal with kind, key and data", file,
                         line_number);
    if (const auto at = json.find("at_s"); at != json.end()) {
      if (!at->is_number() || !(at->get<double>() >= 0 && at->get<double>() <= kMostJournal_s))
        throw JournalError("{}: line {}: expected at_s as a number of seconds from 0", file, line_number);
      at_s = at->get<double>();
    }
    on_entry(json.at("kind").get<std::string>(), json.at("key").get<std::string>(), json.at("data"));
  }
  if (line_number == 0)
    throw JournalError("{}: expected a journal that this program can resume, found something else", file);
  return at_s;
}

void Journal::append(const std::string& kind, const std::string& key, const OrderedJson& data) {
  const double at_s = state_->earlier_s + elapsed(state_->begin, state_->clock()).value;
  OrderedJson entry{{"kind", kind}, {"key", key}, {"data", data}, {"at_s", std::round(at_s * 1000) / 1000}};
  hide_bytes(entry);
  const std::string line = entry.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
  if (std::fwrite(line.data(), 1, line.size(), state_->out.get()) != line.size() ||
      std::fflush(state_->out.get()) != 0)
    throw JournalError("{}: cannot be written: {}", state_->file.string(), last_system_error());
}

void Journal::read_each(const std::string& kind, const std::string& key,
                        const std::function<void(const JsonReader&)>& read) const {
  const auto at = state_->entries.find({kind, key});
  if (at == state_->entries.end()) return;
  try {
    for (const OrderedJson& data : at->second) read(JsonReader(data));
  } catch (const Error& error) {
    throw JournalError(
        "{}: the entry '{}' of '{}' cannot be read: {}; start the run again from the beginning",
        state_->file.string(), kind, key, error.what());
  }
}

bool Journal::has(const std::string& kind, const std::string& key) const {
  return state_->entries.contains({kind, key});
}

bool Journal::has_resumed() const {
  return state_->has_resumed;
}

double Journal::earlier_s() const {
  return state_->earlier_s;
}

}  // namespace assay

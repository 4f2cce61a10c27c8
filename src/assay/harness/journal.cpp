#include "assay/harness/journal.h"

#include <cerrno>
#include <cstring>

#include "assay/base/file.h"

namespace assay {

using OrderedJson = nlohmann::ordered_json;

namespace {
constexpr int kVersion = 2;

// Null where the line is not JSON.
OrderedJson parsed_line(const std::string& line) {
  try {
    return parse_ordered_json(line, "");
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

Journal::Journal(std::filesystem::path file, const std::string& plan, bool resumes)
    : file_(std::move(file)), plan_(plan) {
  if (resumes && std::filesystem::exists(file_)) {
    read();
    has_resumed_ = true;
  } else {
    const OrderedJson head{{"journal", kVersion}, {"plan", plan}};
    write_file_atomically(file_, head.dump() + "\n");
  }
  out_.reset(std::fopen(file_.c_str(), "ab"));
  if (out_ == nullptr) throw JournalError("{}: cannot be written: {}", file_.string(), last_system_error());
}

void Journal::read() {
  const std::string text = read_text_file(file_);
  const std::size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  std::size_t line_number = 0;
  for (std::size_t at = 0; at < whole;) {
    const std::size_t end = text.find('\n', at);
    ++line_number;
    const OrderedJson json = parsed_line(text.substr(at, end - at));
    at = end + 1;
    if (line_number == 1) {
      if (!json.is_object() || json.value("journal", OrderedJson()) != kVersion)
        throw JournalError("{}: expected a journal that this program can resume, found something else",
                           file_.string());
      if (json.value("plan", OrderedJson()) != plan_)
        throw JournalError(
            "{}: another plan was begun here: expected the same model and options; start the run again "
            "from the beginning, or repeat it with those",
            file_.string());
      continue;
    }
    const auto is_text = [&](const char* key) { return json.contains(key) && json.at(key).is_string(); };
    if (!json.is_object() || !is_text("kind") || !is_text("key") || !json.contains("data"))
      throw JournalError("{}: line {}: expected an entry of a journal with kind, key and data",
                         file_.string(), line_number);
    entries_[{json.at("kind").get<std::string>(), json.at("key").get<std::string>()}].push_back(
        json.at("data"));
  }
  if (line_number == 0)
    throw JournalError("{}: expected a journal that this program can resume, found something else",
                       file_.string());
  // What was cut off must not join the next line.
  if (whole < text.size()) std::filesystem::resize_file(file_, whole);
}

void Journal::append(const std::string& kind, const std::string& key, OrderedJson data) {
  const OrderedJson entry{{"kind", kind}, {"key", key}, {"data", std::move(data)}};
  const std::string line = entry.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
  if (std::fwrite(line.data(), 1, line.size(), out_.get()) != line.size() || std::fflush(out_.get()) != 0)
    throw JournalError("{}: cannot be written: {}", file_.string(), last_system_error());
}

void Journal::refuse(const std::string& kind, const std::string& key, const char* why) const {
  throw JournalError("{}: the entry '{}' of '{}' cannot be read: {}; start the run again from the beginning",
                     file_.string(), kind, key, why);
}

std::vector<OrderedJson> Journal::find(const std::string& kind, const std::string& key) const {
  const auto at = entries_.find({kind, key});
  return at == entries_.end() ? std::vector<OrderedJson>() : at->second;
}

}  // namespace assay

#include "assay/experiments/journal.h"

#include <cerrno>
#include <cstring>

#include "assay/base/error.h"
#include "assay/base/file.h"

namespace assay {

using OrderedJson = nlohmann::ordered_json;

namespace {
constexpr int kVersion = 1;
}

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
  if (out_ == nullptr) throw Error("{}: cannot be written: {}", file_.string(), std::strerror(errno));
}

void Journal::read() {
  const std::string text = read_text_file(file_);
  const std::size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  std::size_t line_number = 0;
  for (std::size_t at = 0; at < whole;) {
    const std::size_t end = text.find('\n', at);
    ++line_number;
    OrderedJson json = OrderedJson::parse(text.substr(at, end - at), nullptr, false);
    at = end + 1;
    if (line_number == 1) {
      if (!json.is_object() || json.value("journal", 0) != kVersion)
        throw Error("{}: not a journal that this program can resume", file_.string());
      if (json.value("plan", "") != plan_)
        throw Error(
            "{}: another plan was begun here: run it again without --resume, or with the same model "
            "and flags",
            file_.string());
      continue;
    }
    if (!json.is_object() || !json.contains("kind") || !json.contains("key") || !json.contains("data"))
      throw Error("{}: line {} is no entry of a journal", file_.string(), line_number);
    entries_[{json.at("kind").get<std::string>(), json.at("key").get<std::string>()}].push_back(
        json.at("data"));
  }
  if (line_number == 0) throw Error("{}: not a journal that this program can resume", file_.string());
  // What was cut off must not join the next line.
  if (whole < text.size()) std::filesystem::resize_file(file_, whole);
}

void Journal::append(const std::string& kind, const std::string& key, OrderedJson data) {
  const OrderedJson entry{{"kind", kind}, {"key", key}, {"data", std::move(data)}};
  const std::string line = entry.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
  if (std::fwrite(line.data(), 1, line.size(), out_.get()) != line.size() || std::fflush(out_.get()) != 0)
    throw Error("{}: cannot be written: {}", file_.string(), std::strerror(errno));
}

std::vector<OrderedJson> Journal::find(const std::string& kind, const std::string& key) const {
  const auto at = entries_.find({kind, key});
  return at == entries_.end() ? std::vector<OrderedJson>() : at->second;
}

}  // namespace assay

// What a run has measured so far, one JSON line each, so that a run that was cut off can be resumed.
#pragma once

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/json_reader.h"

namespace assay {

// The journal cannot be written or understood. It ends the run; it is never the failure of one case.
class JournalError : public Error {
 public:
  using Error::Error;
};

class Journal {
 public:
  // Begins a new journal; where `resumes`, reads the one that is there, without a last line that was cut off.
  // `plan` identifies what is run: a journal of another plan is an Error.
  Journal(std::filesystem::path file, const std::string& plan, bool resumes);

  struct Entry {
    std::string kind, key;  // "sample" of a case
    nlohmann::ordered_json data;
  };
  // Written to the file before it returns.
  void append(const std::string& kind, const std::string& key, nlohmann::ordered_json data);
  // Gives `read` (such as sample_from_json) each entry that earlier runs wrote, in order. Throws JournalError
  // where `read` does not understand one.
  template <typename Read>
  void read_each(const std::string& kind, const std::string& key, const Read& read) const {
    try {
      for (const nlohmann::ordered_json& data : find(kind, key)) read(JsonReader(data));
    } catch (const Error& error) {
      refuse(kind, key, error.what());
    }
  }
  std::vector<nlohmann::ordered_json> find(const std::string& kind, const std::string& key) const;
  bool has_resumed() const { return has_resumed_; }

 private:
  void read();
  [[noreturn]] void refuse(const std::string& kind, const std::string& key, const char* why) const;
  std::filesystem::path file_;
  std::string plan_;
  bool has_resumed_ = false;
  std::map<std::pair<std::string, std::string>, std::vector<nlohmann::ordered_json>> entries_;
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> out_;
};

}  // namespace assay

// What a sweep has found so far, a JSON line each, so that a run that was cut off goes on where it stopped.
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

// The journal cannot be written or understood: the end of a run, never a failure of the case at hand.
class JournalError : public Error {
 public:
  using Error::Error;
};

class Journal {
 public:
  // Begins a new journal, or reads the one that is there where `resumes`: a last line that was cut off counts
  // as not written. `plan` says what is run; a journal of another plan is an Error.
  Journal(std::filesystem::path file, const std::string& plan, bool resumes);

  struct Entry {
    std::string kind, key;  // "sample" of a case
    nlohmann::ordered_json data;
  };
  // Written to the file before it returns.
  void append(const std::string& kind, const std::string& key, nlohmann::ordered_json data);
  // What earlier runs wrote, in its order, through `read` (such as sample_from_json), which is given a
  // JsonReader. Throws JournalError where that cannot.
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

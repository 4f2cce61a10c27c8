// What a run has measured so far, one JSON line each, so that a run that was cut off can be resumed.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json_fwd.hpp>

#include "assay/base/error_types.h"
#include "assay/base/json_reader.h"
#include "assay/base/units.h"

namespace assay {

// The journal cannot be written or understood. It ends the run; it is never the failure of one case.
class JournalError : public Error {
 public:
  using Error::Error;
};

class Journal {
 public:
  // Begins a new journal; where `resumes`, reads the one that is there, without a last line that was cut off.
  // `plan` identifies what is run: a journal of another plan is an Error. An entry says how many seconds the
  // run had taken by `clock`, from now on or from a `begin` before it, those of earlier runs included.
  Journal(std::filesystem::path file, const std::string& plan, bool resumes,
          std::function<TimePoint()> clock = Clock::now, std::optional<TimePoint> begin = {});
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // An entry of a kind ("sample") under a key (of a case). Written to the file before it returns.
  void append(const std::string& kind, const std::string& key, const nlohmann::ordered_json& data);
  // Gives `read` (such as sample_from_json) each entry that earlier runs wrote, in order. Throws JournalError
  // where `read` does not understand one.
  void read_each(const std::string& kind, const std::string& key,
                 const std::function<void(const JsonReader& data)>& read) const;
  bool has(const std::string& kind, const std::string& key) const;  // an entry that earlier runs wrote
  bool has_resumed() const;
  double earlier_s() const;  // that earlier runs had taken when they wrote their last entry

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Reads the text of a journal as the constructor does, but for a last line without a line break: `on_entry`
// is given each entry in order. Returns the seconds that the run had taken at the last entry; 0 where it does
// not say so. Throws JournalError naming `file` and, of an entry, the line.
double read_journal(std::string_view text, const std::string& file, const std::string& plan,
                    const std::function<void(const std::string& kind, const std::string& key,
                                             const nlohmann::ordered_json& data)>& on_entry);

// What an earlier run wrote under this kind and key or, where it wrote nothing, what `make` gives, which is
// written down. `read` and `write` turn it from JSON and to JSON. No journal: what `make` gives.
template <typename Read, typename Write, typename Make>
auto resumed(Journal* journal, const std::string& kind, const std::string& key, const Read& read,
             const Write& write, const Make& make) {
  std::optional<decltype(make())> known;
  if (journal != nullptr) journal->read_each(kind, key, [&](const JsonReader& data) { known = read(data); });
  if (known) return std::move(*known);
  auto made = make();
  if (journal != nullptr) journal->append(kind, key, write(made));
  return made;
}

}  // namespace assay

// Where a command's words go: the answer to standard output, everything else to standard error.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "assay/base/error.h"

namespace assay::cli {

// Opens what the parent had closed of standard input, output and error: a file opened later must not take
// their place and receive what is written to them. Writing to such an output still fails.
void keep_standard_streams();

// Whoever read standard output has gone.
struct ReaderGone : Error {
  ReaderGone() : Error("cannot write to standard output") {}
};
// Writes to standard output; throws Error when it cannot (a full disk), ReaderGone for a closed pipe.
void answer(std::string_view text);
// Text that a model wrote: on a terminal its control characters are shown and not obeyed.
void answer_text(std::string_view text);
// A document of docs/schemas/KIND.schema.json: an object, which gets the keys `schema` and `schema_version`.
void answer_json(std::string_view kind, const nlohmann::ordered_json& document);
void note(std::string_view line);

// Columns for prose: those of the terminal, or of COLUMNS where it is set, else 80; 100 at most.
std::size_t terminal_width();
// The same for tables, which may be 200 columns wide.
std::size_t table_width();

// "about 40 s left; "; empty where it is not known.
std::string time_left(std::optional<double> seconds);

// A single line on a terminal that is written over as work goes on; cut where the terminal ends.
class Progress {
 public:
  explicit Progress(bool is_shown) : is_shown_(is_shown) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(std::string_view text);
  void clear();

 private:
  bool is_shown_, is_dirty_ = false;
};

// Ctrl-C, SIGTERM, SIGHUP (a closed terminal) and SIGXFSZ (a limit on the size of files) set a flag that long
// work looks at; another of the first three, half a second later or more, ends the program at once. Signals
// that the parent had ignored stay ignored.
void watch_interrupts();
bool is_interrupted();
// A wait for input ends at the first signal too: it would begin again otherwise.
void let_interrupts_end_reads();

}  // namespace assay::cli

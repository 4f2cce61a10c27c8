// Texts and prompts from files, read as Python reads them: with universal newlines, and without the byte
// order mark that editors put in front.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace assay {

// What becomes of CR LF, of CR alone, and of a byte order mark: `universal` reads line ends as LF and leaves
// the mark out (open(file, encoding="utf-8-sig")); `keep` leaves the text as it is.
enum class Newlines { universal, keep };

struct TextFile {
  std::string text;
  // What was changed, as a clause: "3 line ends of CR LF or CR were read as LF"; empty: nothing was.
  std::string change;
};

// Changes a text that comes in pieces as Newlines says.
class NewlineReader {
 public:
  explicit NewlineReader(Newlines newlines) : newlines_(newlines) {}
  // The piece as it is read; a CR at its end waits for what follows. The first has the mark's bytes, if any.
  std::string add(std::string piece);
  std::string end();           // what waited
  std::string change() const;  // as TextFile has it

 private:
  Newlines newlines_;
  std::int64_t changed_ = 0;
  bool is_first_ = true, has_mark_ = false, has_return_ = false;
};

// Changes the text as Newlines says. `change` is for messages.
TextFile with_newlines(std::string text, Newlines newlines);
// Throws Error as read_text_file() does.
TextFile read_text(const std::filesystem::path& file, Newlines newlines);

}  // namespace assay

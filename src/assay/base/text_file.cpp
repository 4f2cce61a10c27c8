#include "assay/base/text_file.h"

#include <utility>

#include "assay/base/file.h"
#include "assay/base/format.h"

namespace assay {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// In place; returns how many line ends were others than LF.
std::int64_t make_line_feeds(std::string& text) {
  std::int64_t changed = 0;
  std::size_t out = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_return = text[i] == '\r';
    changed += is_return ? 1 : 0;
    if (is_return && i + 1 < text.size() && text[i + 1] == '\n') ++i;
    text[out++] = is_return ? '\n' : text[i];
  }
  text.resize(out);
  return changed;
}

}  // namespace

TextFile with_newlines(std::string text, Newlines newlines) {
  TextFile read{std::move(text), ""};
  if (newlines == Newlines::keep) return read;
  const bool has_mark = read.text.starts_with(kByteOrderMark);
  if (has_mark) read.text.erase(0, kByteOrderMark.size());
  if (read.text.find('\r') != std::string::npos) {
    const std::int64_t changed = make_line_feeds(read.text);
    read.change = fmt::format("{} line end{} of CR LF or CR {} read as LF", changed, changed == 1 ? "" : "s",
                              changed == 1 ? "was" : "were");
  }
  if (has_mark)
    read.change += std::string(read.change.empty() ? "" : ", and ") + "a byte order mark was left out";
  return read;
}

TextFile read_text(const std::filesystem::path& file, Newlines newlines) {
  return with_newlines(read_text_file(file), newlines);
}

}  // namespace assay

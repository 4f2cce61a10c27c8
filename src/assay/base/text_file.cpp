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

std::string NewlineReader::add(std::string piece) {
  if (newlines_ == Newlines::keep || piece.empty()) return piece;
  if (is_first_ && piece.starts_with(kByteOrderMark)) {
    has_mark_ = true;
    piece.erase(0, kByteOrderMark.size());
  }
  is_first_ = false;
  if (has_return_) piece.insert(piece.begin(), '\r');
  has_return_ = piece.ends_with('\r');
  if (has_return_) piece.pop_back();
  if (piece.find('\r') != std::string::npos) changed_ += make_line_feeds(piece);
  return piece;
}

std::string NewlineReader::end() {
  if (!std::exchange(has_return_, false)) return "";
  ++changed_;
  return "\n";
}

std::string NewlineReader::change() const {
  std::string change;
  if (changed_ > 0)
    change = fmt::format("{} line end{} of CR LF or CR {} read as LF", changed_, changed_ == 1 ? "" : "s",
                         changed_ == 1 ? "was" : "were");
  if (has_mark_) change += std::string(change.empty() ? "" : ", and ") + "a byte order mark was left out";
  return change;
}

TextFile with_newlines(std::string text, Newlines newlines) {
  NewlineReader reader(newlines);
  TextFile read{reader.add(std::move(text)), ""};
  read.text += reader.end();
  read.change = reader.change();
  return read;
}

TextFile read_text(const std::filesystem::path& file, Newlines newlines) {
  return with_newlines(read_text_file(file), newlines);
}

}  // namespace assay

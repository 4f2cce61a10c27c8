#include "assay/text/wikitext.h"

#include <algorithm>
#include <cstddef>

#include "assay/text/python_text.h"

namespace assay {

namespace {

// Python's str.replace.
void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t found = text.find(from); found != std::string::npos; found = text.find(from, at)) {
    out.append(text, at, found - at);
    out += to;
    at = found + from.size();
  }
  if (at == 0) return;
  out.append(text, at);
  text = std::move(out);
}

// The blanks inside a pair go: re.sub of OPEN\s*([^CLOSE]*?)\s*CLOSE.
void close_up(std::string& text, char open, char close) {
  std::string out;
  std::size_t at = 0;
  while (true) {
    const std::size_t begin = text.find(open, at);
    const std::size_t end = begin == std::string::npos ? begin : text.find(close, begin + 1);
    if (end == std::string::npos) break;
    out.append(text, at, begin - at + 1);
    out += stripped(std::string_view(text).substr(begin + 1, end - begin - 1));
    out += close;
    at = end + 1;
  }
  out.append(text, at);
  text = std::move(out);
}

// Its pattern /' [0-9]/ has its own slashes in it, and its replacement is no reference.
void replace_contractions(std::string& text) {
  for (char digit = '0'; digit <= '9'; ++digit)
    replace_all(text, std::string("/' ") + digit + "/", "/'[0-9]/");
}

bool is_first_heading(std::string_view line) {
  const std::string_view text = stripped(line);
  return text.size() > 4 && text.starts_with("= ") && text.ends_with(" =") && !text.starts_with("= =");
}

}  // namespace

std::string wikitext_detokenized(std::string_view raw) {
  std::string text(raw);
  replace_all(text, "s '", "s'");
  replace_contractions(text);
  for (const auto& [from, to] : {std::pair{" @-@ ", "-"},
                                 {" @,@ ", ","},
                                 {" @.@ ", "."},
                                 {" : ", ": "},
                                 {" ; ", "; "},
                                 {" . ", ". "},
                                 {" ! ", "! "},
                                 {" ? ", "? "},
                                 {" , ", ", "}})
    replace_all(text, from, to);
  close_up(text, '(', ')');
  close_up(text, '[', ']');
  close_up(text, '{', '}');
  close_up(text, '"', '"');
  close_up(text, '\'', '\'');
  for (const auto& [from, to] : {std::pair{"= = = =", "===="},
                                 {"= = =", "==="},
                                 {"= =", "=="},
                                 {" \xC2\xB0 ", "\xC2\xB0"},
                                 {" \n", "\n"},
                                 {"\n ", "\n"},
                                 {" N ", " 1 "},
                                 {" 's", "'s"}})
    replace_all(text, from, to);
  return text;
}

std::vector<std::string_view> wikitext_documents(std::string_view text) {
  std::vector<std::string_view> documents;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const bool has_text = !stripped(text.substr(begin, at - begin)).empty();
    if (has_text && is_first_heading(text.substr(at, end - at))) {
      documents.push_back(text.substr(begin, at - begin));
      begin = at;
    }
    at = end + 1;
  }
  if (begin < text.size()) documents.push_back(text.substr(begin));
  return documents;
}

}  // namespace assay

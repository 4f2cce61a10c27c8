#include "assay/report/text_layout.h"

#include <utf8proc.h>

#include <algorithm>
#include <cctype>

#include "assay/base/format.h"

namespace assay::report {

namespace {

constexpr utf8proc_int32_t kReplacement = 0xfffd, kEmojiPresentation = 0xfe0f;
constexpr std::string_view kReplacementBytes = "\xef\xbf\xbd";

struct CodePoint {
  utf8proc_int32_t value = 0;
  std::size_t bytes = 0;
};
CodePoint code_point_at(std::string_view text) {
  CodePoint point;
  const auto n = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                  static_cast<utf8proc_ssize_t>(text.size()), &point.value);
  if (n <= 0) return {kReplacement, 1};
  point.bytes = static_cast<std::size_t>(n);
  return point;
}

// What a reader sees as one character, with the columns it takes.
struct Cluster {
  std::string_view bytes;
  std::size_t width = 0;
};
std::vector<Cluster> clusters_of(std::string_view text) {
  std::vector<Cluster> clusters;
  utf8proc_int32_t state = 0, last = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text.substr(at));
    const auto width = static_cast<std::size_t>(std::max(0, utf8proc_charwidth(point.value)));
    if (clusters.empty() || utf8proc_grapheme_break_stateful(last, point.value, &state)) {
      clusters.push_back({text.substr(at, point.bytes), width});
    } else {
      Cluster& cluster = clusters.back();
      cluster.bytes = text.substr(static_cast<std::size_t>(cluster.bytes.data() - text.data()),
                                  cluster.bytes.size() + point.bytes);
      cluster.width += width;
      if (point.value == kEmojiPresentation) cluster.width = std::max<std::size_t>(cluster.width, 2);
    }
    last = point.value;
    at += point.bytes;
  }
  return clusters;
}

bool changes_direction_or_controls(utf8proc_int32_t point) {
  return (point >= 0x80 && point <= 0x9f) || (point >= 0x202a && point <= 0x202e) ||
         (point >= 0x2066 && point <= 0x2069) || point == 0x2028 || point == 0x2029;
}

// The longest part from the beginning that fits.
std::string_view fitting(std::string_view text, std::size_t width) {
  std::size_t used = 0, bytes = 0;
  for (const Cluster& cluster : clusters_of(text)) {
    if (used + cluster.width > width) break;
    used += cluster.width;
    bytes += cluster.bytes.size();
  }
  return text.substr(0, bytes);
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (const Cluster& cluster : clusters_of(text)) width += cluster.width;
  return width;
}

std::string terminal_text(std::string_view text) {
  const std::string escaped = escape_controls(text);
  std::string shown;
  for (std::size_t at = 0; at < escaped.size();) {
    const CodePoint point = code_point_at(std::string_view(escaped).substr(at));
    if (point.value == kReplacement || changes_direction_or_controls(point.value))
      shown += kReplacementBytes;
    else
      shown.append(escaped, at, point.bytes);
    at += point.bytes;
  }
  return shown;
}

std::string markdown_words(std::string_view words) {
  const std::string text = terminal_text(words);
  const auto is_word = [&](std::size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) != 0 ||
                               (static_cast<unsigned char>(text[i]) & 0x80U) != 0);
  };
  std::string escaped;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    const bool is_markup = std::string_view("\\`*<>|~").find(c) != std::string_view::npos ||
                           (c == '_' && !(i > 0 && is_word(i - 1) && is_word(i + 1))) ||
                           (c == ']' && (next == '(' || next == '[' || next == ':'));
    if (is_markup) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string cut_to_width(std::string_view text, std::size_t width) {
  constexpr std::size_t kDots = 3;
  if (display_width(text) <= width) return std::string(text);
  if (width <= kDots) return std::string(fitting(text, width));
  return std::string(fitting(text, width - kDots)) + "...";
}

std::vector<std::string> command_lines(std::string_view command, std::size_t width, std::size_t indent) {
  std::vector<std::string> words{""};
  char quote = 0;
  for (std::size_t at = 0; at < command.size(); ++at) {
    const char c = command[at];
    const bool is_escaped = at > 0 && command[at - 1] == '\\' && quote != '\'';
    if (!is_escaped && quote == 0 && (c == '\'' || c == '"'))
      quote = c;
    else if (!is_escaped && c == quote)
      quote = 0;
    if (c == ' ' && quote == 0 && !is_escaped)
      words.emplace_back();
    else
      words.back() += c;
  }
  constexpr std::size_t kContinued = 2;  // columns of " \\"
  std::vector<std::string> lines;
  std::size_t used = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].empty()) continue;
    const std::size_t own = display_width(words[i]), end = i + 1 < words.size() ? kContinued : 0;
    if (lines.empty()) {
      lines.push_back(std::string(indent, ' ') + words[i]);
      used = indent + own;
    } else if (used + 1 + own + end <= width) {
      lines.back() += " " + words[i];
      used += 1 + own;
    } else {
      lines.back() += " \\";
      lines.push_back(std::string(indent + kContinued, ' ') + words[i]);
      used = indent + kContinued + own;
    }
  }
  return lines;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  const std::size_t margin = std::min(indent, width > 0 ? width - 1 : 0);
  std::vector<std::string> lines{""};
  std::size_t used = 0, begin = 0;  // columns of the last line, and those of its indent
  const auto next_line = [&] {
    lines.emplace_back(margin, ' ');
    used = begin = margin;
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    std::string_view word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    const bool is_first = used == begin;
    if (!is_first && used + 1 + display_width(word) > width) next_line();
    if (used > begin) {
      lines.back() += ' ';
      ++used;
    }
    while (used + display_width(word) > width) {
      std::string_view part = fitting(word, width - used);
      // A character that is wider than the line cannot be split.
      if (part.empty() && used == begin) part = clusters_of(word).front().bytes;
      lines.back() += part;
      word.remove_prefix(part.size());
      next_line();
    }
    lines.back() += word;
    used += display_width(word);
  }
  while (lines.size() > 1 && lines.back().find_first_not_of(' ') == std::string::npos) lines.pop_back();
  return lines;
}

}  // namespace assay::report

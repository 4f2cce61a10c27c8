#include "assay/report/render.h"

#include <algorithm>

#include "assay/base/format.h"
#include "assay/report/text_layout.h"

namespace assay::report {

namespace {

// Conclusions first, or last.
std::vector<const Section*> ordered(const Document& document, bool has_conclusions_first) {
  std::vector<const Section*> sections;
  for (const Section& section : document.sections) sections.push_back(&section);
  std::stable_partition(sections.begin(), sections.end(), [&](const Section* section) {
    return section->is_conclusion == has_conclusions_first;
  });
  return sections;
}

std::string joined_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::string path_of(const Figure& figure) {
  return fmt::format("plots/{}.svg", figure.name);
}

class TerminalRenderer {
 public:
  explicit TerminalRenderer(std::size_t width)
      : width_(std::max<std::size_t>(width, 20)), prose_(std::min(width_, kWidestProse)) {}

  std::string operator()(const Document& document) const {
    std::string text;
    for (const Section* section : ordered(document, false)) {
      if (section->shown == Shown::on_pages) continue;
      std::string body;
      for (const Block& block : section->blocks) {
        if (block.shown == Shown::on_pages) continue;
        const std::string part =
            std::visit([&](const auto& content) { return render(content); }, block.content);
        body += (body.empty() || part.empty() ? "" : "\n") + part;
      }
      if (body.empty()) continue;
      text += (text.empty() ? "" : "\n") + heading(section->title) + body;
    }
    return text;
  }

 private:
  std::string heading(const std::string& title) const {
    if (title.empty()) return "";
    const std::string shown = cut_to_width(terminal_text(title), width_);
    return shown + "\n" + std::string(display_width(shown), '=') + "\n";
  }
  std::string render(const Paragraph& paragraph) const {
    return joined_lines(wrapped(terminal_text(paragraph.text), prose_));
  }
  std::string render(const List& list) const {
    std::string text;
    for (const std::string& item : list.items) {
      const ItemParts parts = parts_of(item, list.commands);
      const std::string before = "- " + terminal_text(parts.before), command = terminal_text(parts.command);
      if (command.empty()) {
        text += joined_lines(wrapped(before, prose_, kIndent));
        continue;
      }
      text += joined_lines(wrapped(before, prose_, kIndent)) +
              joined_lines(command_lines(command, prose_, 2 * kIndent));
      const std::string after = terminal_text(parts.after);
      if (after.find_first_not_of(" .") == std::string::npos) continue;
      for (const std::string& line : wrapped(after, prose_ - kIndent))
        text += std::string(kIndent, ' ') + line + "\n";
    }
    return text;
  }
  std::string render(const Lines& lines) const {
    std::string text;
    for (const std::string& line : lines.lines) text += cut_to_width(terminal_text(line), width_) + "\n";
    return text;
  }
  std::string render(const Table& table) const { return table.rows.empty() ? "" : to_text(table, width_); }
  std::string render(const Figure& /*figure*/) const { return ""; }

  static constexpr std::size_t kIndent = 2;
  std::size_t width_, prose_;
};

// Prose on a line of its own: some characters at its beginning open lists, headings and rules.
std::string markdown_line(std::string_view words) {
  const std::string text = markdown_words(words);
  return !text.empty() && std::string_view("#-+=").find(text.front()) != std::string_view::npos ? "\\" + text
                                                                                                : text;
}

// As code, between more backticks than stand in it.
std::string markdown_code(std::string_view command) {
  const std::string text = terminal_text(command);
  std::string fence = "`";
  while (text.find(fence) != std::string::npos) fence += '`';
  const char* gap = fence.size() > 1 ? " " : "";
  return fence + gap + text + gap + fence;
}

class MarkdownRenderer {
 public:
  std::string operator()(const Document& document) const {
    std::string text = "# " + markdown_words(document.title) + "\n";
    for (const Section* section : ordered(document, true)) {
      if (section->shown == Shown::on_terminals) continue;
      const std::string body = blocks_of(*section);
      if (body.empty()) continue;
      if (!section->title.empty()) text += "\n## " + markdown_words(section->title) + "\n";
      text += body;
    }
    return text;
  }

  static std::string blocks_of(const Section& section) {
    std::string body;
    for (const Block& block : section.blocks) {
      if (block.shown == Shown::on_terminals) continue;
      const std::string part =
          std::visit([&](const auto& content) { return render(content); }, block.content);
      if (!part.empty()) body += "\n" + part;
    }
    return body;
  }

 private:
  static std::string render(const Paragraph& paragraph) { return markdown_line(paragraph.text) + "\n"; }
  static std::string render(const List& list) {
    std::string text;
    for (const std::string& item : list.items) {
      const ItemParts parts = parts_of(item, list.commands);
      text += "- " + markdown_line(parts.before);
      if (!parts.command.empty()) text += markdown_code(parts.command) + markdown_words(parts.after);
      text += "\n";
    }
    return text;
  }
  // A fence that no line of it closes.
  static std::string render(const Lines& lines) {
    std::string fence = "```", text;
    for (const std::string& line : lines.lines) {
      const std::string shown = terminal_text(line);
      while (shown.find(fence) != std::string::npos) fence += '`';
      text += shown + "\n";
    }
    return fence + "\n" + text + fence + "\n";
  }
  static std::string render(const Table& table) { return table.rows.empty() ? "" : to_markdown(table); }
  static std::string render(const Figure& figure) {
    const std::string image = fmt::format("![{}]({})\n", markdown_words(figure.plot.title), path_of(figure));
    return figure.plot.caption.empty() ? image : image + "\n" + markdown_line(figure.plot.caption) + "\n";
  }
};

}  // namespace

ItemParts parts_of(const std::string& item, const std::vector<std::string>& commands) {
  // The longest: a command may be the beginning of another.
  const std::string* found = nullptr;
  for (const std::string& command : commands)
    if (!command.empty() && item.find(command) != std::string::npos &&
        (found == nullptr || command.size() > found->size()))
      found = &command;
  if (found == nullptr) return {item, "", ""};
  const std::size_t at = item.find(*found);
  return {item.substr(0, at), *found, item.substr(at + found->size())};
}

std::string to_terminal(const Document& document, std::size_t width) {
  return TerminalRenderer(width)(document);
}

std::string to_markdown(const Document& document) {
  return MarkdownRenderer()(document);
}

std::string markdown_blocks(const Section& section) {
  return MarkdownRenderer::blocks_of(section);
}

std::vector<std::pair<std::string, std::string>> pictures_of(const Document& document) {
  std::vector<std::pair<std::string, std::string>> pictures;
  for (const Section& section : document.sections)
    for (const Block& block : section.blocks)
      if (const auto* figure = std::get_if<Figure>(&block.content))
        pictures.emplace_back(path_of(*figure), to_svg(figure->plot));
  return pictures;
}

}  // namespace assay::report

#include "assay/report/html/markup.h"

#include <nlohmann/json.hpp>

#include "assay/base/format.h"
#include "assay/report/render.h"
#include "assay/report/table.h"
#include "assay/report/text_layout.h"

namespace assay::report {

namespace {

constexpr std::size_t kLongList = 12;  // longer ones are folded

std::string without_markup(std::string_view shown) {
  std::string out;
  for (const char c : shown) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// A verdict or a name is not broken: the table scrolls.
std::string cells(const std::vector<std::string>& row, const std::vector<bool>& is_number) {
  constexpr std::size_t kShort = 32;
  std::string text;
  for (std::size_t j = 0; j < row.size(); ++j) {
    const bool has_numbers = j < is_number.size() && is_number[j];
    const char* kind = has_numbers ? " class=\"n\"" : row[j].size() <= kShort ? " class=\"k\"" : "";
    text += j == 0 ? fmt::format("<th scope=\"row\">{}</th>", html_words(row[j]))
                   : fmt::format("<td{}>{}</td>", kind, html_words(row[j]));
  }
  return text;
}

}  // namespace

std::string html_words(std::string_view text) {
  return without_markup(terminal_text(text));
}

std::string html_text(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out += (at == 0 ? "" : "\n") + html_words(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::string script_json(const nlohmann::ordered_json& json) {
  const std::string text =
      json.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::ordered_json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '<' || c == '>' || c == '&')
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out;
}

std::string id_of(std::string_view title) {
  std::string id;
  for (const char c : title) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (c >= 'A' && c <= 'Z')
      id += static_cast<char>(c - 'A' + 'a');
    else if (is_letter)
      id += c;
    else if (!id.empty() && id.back() != '-')
      id += '-';
  }
  return id;
}

std::string html_heading(int level, std::string_view title, std::string_view id) {
  const std::string has_id = id.empty() ? "" : fmt::format(" id=\"{}\"", id);
  return fmt::format("<h{0}{1}>{2}</h{0}>\n", level, has_id, html_words(title));
}

std::string html_paragraph(const std::string& text) {
  return fmt::format("<p>{}</p>\n", html_words(text));
}

std::string html_list(const List& list) {
  const std::vector<std::string>& items = list.items;
  std::string text = "<ul>\n";
  for (const std::string& item : items) {
    const ItemParts parts = parts_of(item, list.commands);
    text += "<li>" + html_words(parts.before);
    if (!parts.command.empty())
      text += fmt::format("<code>{}</code>{}", html_words(parts.command), html_words(parts.after));
    text += "</li>\n";
  }
  text += "</ul>\n";
  if (items.size() <= kLongList) return text;
  return fmt::format("<details>\n<summary>{} sentences</summary>\n{}</details>\n", items.size(), text);
}

std::string html_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + html_words(line);
  return fmt::format("<pre class=\"lines\">{}</pre>\n", text);
}

std::string html_table(const Table& table, std::string_view name) {
  if (table.rows.empty()) return "";
  std::string text = fmt::format(
      "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"{0}\">\n<table>\n"
      "<caption class=\"unseen\">{0}</caption>\n<thead><tr>",
      html_words(name));
  for (std::size_t j = 0; j < table.head.size(); ++j)
    text += fmt::format("<th scope=\"col\"{}>{}</th>",
                        j < table.is_number.size() && table.is_number[j] ? " class=\"n\"" : "",
                        html_words(table.head[j]));
  text += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows)
    text += fmt::format("<tr>{}</tr>\n", cells(row, table.is_number));
  return text + "</tbody>\n</table>\n</div>\n";
}

std::string html_figure(const Figure& figure) {
  const std::string id = "plot-" + id_of(figure.name);
  std::string svg = to_svg(figure.plot);
  constexpr std::string_view kBegin = "<svg ";
  const std::size_t end = svg.find('>');
  svg.insert(end + 1, fmt::format("\n<title id=\"{0}-title\">{1}</title><desc id=\"{0}-data\">{2}</desc>", id,
                                  html_words(figure.plot.title), html_words(described(figure.plot))));
  svg.insert(kBegin.size(),
             fmt::format("class=\"plot\" role=\"img\" aria-labelledby=\"{0}-title {0}-data\" ", id));
  const std::string caption = figure.plot.caption.empty() ? ""
                                                          : fmt::format("<figcaption>{}</figcaption>\n",
                                                                        html_words(figure.plot.caption));
  return fmt::format(
      "<figure id=\"{0}\">\n<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"Plot: {1}\">\n"
      "{2}</div>\n{3}</figure>\n",
      id, html_words(figure.plot.title), svg, caption);
}

std::string html_facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string text = "<dl class=\"facts\">\n";
  for (const auto& [name, fact] : facts)
    if (!fact.empty())
      text += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", html_words(name), html_words(fact));
  return text + "</dl>\n";
}

std::string html_blocks(const Section& section) {
  struct Render {
    const std::string& title;
    std::string operator()(const Paragraph& paragraph) const { return html_paragraph(paragraph.text); }
    std::string operator()(const List& list) const { return list.items.empty() ? "" : html_list(list); }
    std::string operator()(const Lines& lines) const { return html_lines(lines.lines); }
    std::string operator()(const Table& table) const { return html_table(table, title); }
    std::string operator()(const Figure& figure) const { return html_figure(figure); }
  };
  std::string text;
  for (const Block& block : section.blocks)
    if (block.shown != Shown::on_terminals) text += std::visit(Render{section.title}, block.content);
  return text;
}

}  // namespace assay::report

// The page: which part stands where.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "assay/base/format.h"
#include "assay/report/html/html.h"
#include "assay/report/html/markup.h"

namespace assay::report {

namespace {

// A policy for browsers: nothing is loaded, whatever the page holds.
constexpr const char* kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

std::string page_of(const std::string& title, const std::string& header, const std::string& main,
                    const std::string& data) {
  std::string text =
      "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
      "<meta charset=\"utf-8\"/>\n";
  text += fmt::format(
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta name=\"color-scheme\" content=\"light dark\"/>\n<link rel=\"icon\" href=\"data:,\"/>\n"
      "<title>{}</title>\n<style>\n",
      kPolicy, html_words(title));
  text += page_style();
  text += "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the results</a>\n";
  text += fmt::format("<header>\n{}</header>\n<main id=\"main\">\n{}</main>\n", header, main);
  text += data;
  // The comments make one script of both languages, HTML and XML.
  text += "<script>//<![CDATA[\n";
  text += page_script();
  return text + "//]]></script>\n</body>\n</html>\n";
}

std::string titled_section(const std::string& title, const std::string& body) {
  if (body.empty()) return "";
  const std::string id = "part-" + id_of(title);
  return title.empty() ? body
                       : fmt::format("<section aria-labelledby=\"{}\">\n{}{}</section>\n", id,
                                     html_heading(2, title, id), body);
}

bool is_on_page(const Section& section) {
  return section.shown != Shown::on_terminals;
}

// The page of a result set while it is put together.
class ResultPage {
 public:
  ResultPage(const Document& document, const ResultSet& results) : document_(document), results_(results) {}

  std::string build() {
    add("Answer", answer());
    add_all(SectionKind::failures, 5);
    add("Results", table_part(results_));
    add("Generated texts", texts_part(results_));
    for (const bool is_conclusion : {true, false})
      for (const Section& section : document_.sections)
        if (section.kind == SectionKind::other && is_on_page(section) &&
            section.is_conclusion == is_conclusion)
          add(section.title, html_blocks(section));
    add("Figures", figures(false));
    add_all(SectionKind::methods);
    add("Definitions", metrics_part(results_));
    add("Machine", machine_part(results_));
    add("Settings and data", settings_part(results_));
    const std::string header =
        fmt::format("<h1>{}</h1>\n{}{}", html_words(document_.title), facts_part(results_), contents());
    return page_of(document_.title, header, main_, data());
  }

 private:
  void add(const std::string& title, const std::string& body) {
    if (body.empty()) return;
    main_ += titled_section(title, body);
    titles_.push_back(title);
  }

  // `most`: of longer ones the rest is in the table.
  void add_all(SectionKind kind, std::size_t most = 0) {
    for (const Section& section : document_.sections) {
      if (section.kind != kind || !is_on_page(section)) continue;
      Section shown = section;
      for (Block& block : shown.blocks)
        if (auto* list = std::get_if<List>(&block.content);
            list != nullptr && most > 0 && list->items.size() > most) {
          const std::size_t more = list->items.size() - most;
          list->items.resize(most);
          list->items.push_back(fmt::format("{} with the reason in the table.",
                                            counted(static_cast<std::int64_t>(more), "more case")));
        }
      add(section.title, html_blocks(shown));
    }
  }

  List sentences_in(SectionKind kind) const {
    List all;
    for (const Section& section : document_.sections)
      if (section.kind == kind)
        for (const Block& block : section.blocks)
          if (const auto* list = std::get_if<List>(&block.content)) {
            all.items.insert(all.items.end(), list->items.begin(), list->items.end());
            all.commands.insert(all.commands.end(), list->commands.begin(), list->commands.end());
          }
    return all;
  }

  std::string figures(bool is_lead) const {
    std::string text;
    for (const Section& section : document_.sections)
      if (section.kind == SectionKind::figures)
        for (const Block& block : section.blocks)
          if (const auto* figure = std::get_if<Figure>(&block.content);
              figure != nullptr && figure->is_lead == is_lead)
            text += html_figure(*figure);
    return text.empty() ? "" : fmt::format("<div class=\"figures\">\n{}</div>\n", text);
  }

  // Why there is none, where nothing was measured.
  std::string no_answer() const {
    const auto finished = std::count_if(results_.rows.begin(), results_.rows.end(),
                                        [](const Row& row) { return row.status == RowStatus::ok; });
    if (results_.rows.empty()) return "Nothing was measured.";
    if (finished == 0) return "Every case failed; the reasons are below.";
    return "No recommendation: that takes two configurations or more whose comparisons have verdicts. The "
           "figures are in the table below.";
  }

  std::string answer() const {
    const List chosen = sentences_in(SectionKind::recommendation);
    List takeaways = sentences_in(SectionKind::takeaways);
    constexpr std::size_t kTakeaways = 5;
    if (takeaways.items.size() > kTakeaways) takeaways.items.resize(kTakeaways);
    std::string text = chosen.items.empty()
                           ? html_paragraph(no_answer())
                           : fmt::format("<div class=\"answer\">\n{}</div>\n", html_list(chosen));
    text += figures(true);
    if (!takeaways.items.empty()) text += html_heading(3, "Takeaways", "takeaways") + html_list(takeaways);
    return text;
  }

  std::string contents() const {
    std::string text = "<nav aria-label=\"Contents\">\n<ul>\n";
    for (const std::string& title : titles_)
      text += fmt::format("<li><a href=\"#part-{}\">{}</a></li>\n", id_of(title), html_words(title));
    return text + "</ul>\n</nav>\n";
  }

  std::string data() const {
    std::string text = fmt::format("<script type=\"application/json\" id=\"pairs\">{}</script>\n",
                                   script_json(pairs_json(results_)));
    const EmbeddedData embedded = embedded_data(results_);
    if (embedded.json.empty()) return text;
    return text + fmt::format("<script type=\"application/json\" id=\"results-json\"{}>{}</script>\n",
                              embedded.is_whole ? "" : " data-without=\"decode steps\"", embedded.json);
  }

  const Document& document_;
  const ResultSet& results_;
  std::string main_;
  std::vector<std::string> titles_;
};

}  // namespace

std::string to_html(const Document& document) {
  std::string main;
  for (const bool is_conclusion : {true, false})
    for (const Section& section : document.sections)
      if (is_on_page(section) && section.is_conclusion == is_conclusion)
        main += titled_section(section.title, html_blocks(section));
  return page_of(document.title, fmt::format("<h1>{}</h1>\n", html_words(document.title)), main, "");
}

std::string to_html(const Document& document, const ResultSet& results) {
  return ResultPage(document, results).build();
}

}  // namespace assay::report

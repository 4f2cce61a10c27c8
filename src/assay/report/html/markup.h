// Parts of a page: escaping, and the elements that every section is made of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "assay/report/document.h"
#include "assay/report/html/html.h"
#include "assay/results/results.h"

namespace assay::report {

// Text as a page shows it, in elements and in quoted attributes: markup and control characters are escaped.
std::string html_words(std::string_view text);
// The same of a longer text, whose line breaks stay.
std::string html_text(std::string_view text);
// JSON for a script element: ASCII alone, without a character that means anything to a parser of markup.
std::string script_json(const nlohmann::ordered_json& json);

// "Generated texts" -> "generated-texts".
std::string id_of(std::string_view title);
// A heading's level is 2 to 4.
std::string html_heading(int level, std::string_view title, std::string_view id = "");

// Elements of blocks. A table stands in a frame that scrolls, and has `name` as its caption for those who
// cannot see it.
std::string html_paragraph(const std::string& text);
std::string html_list(const List& list);
std::string html_lines(const std::vector<std::string>& lines);
std::string html_table(const Table& table, std::string_view name);
std::string html_figure(const Figure& figure);
std::string html_facts(const std::vector<std::pair<std::string, std::string>>& facts);
// The blocks of a section that a page shows, without its heading.
std::string html_blocks(const Section& section);

// The parts of a result set's page.
std::string facts_part(const ResultSet& results);     // the question
std::string table_part(const ResultSet& results);     // all rows, with the controls of the table
std::string texts_part(const ResultSet& results);     // generated texts side by side
std::string metrics_part(const ResultSet& results);   // definitions
std::string machine_part(const ResultSet& results);   // and the rooflines
std::string settings_part(const ResultSet& results);  // the run's, and the download

// What the script reads: verdicts for every baseline.
nlohmann::ordered_json pairs_json(const ResultSet& results);

// The results.json that a page embeds, for a script element (html.h says what it leaves out).
struct EmbeddedData {
  std::string json;       // empty: it is too long
  bool is_whole = false;  // with the decode steps
};
EmbeddedData embedded_data(const ResultSet& results);

// page.css and page.js, which the build embeds.
std::string_view page_style();
std::string_view page_script();

}  // namespace assay::report

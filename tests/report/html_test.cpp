// The page of a run: its structure, what it escapes, what it embeds, and how large it is.
#include "assay/report/html/html.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/report/html/markup.h"
#include "assay/report/result_document.h"
#include "assay/report/written_results.h"
#include "assay/results/metric.h"
#include "assay/results/results_json.h"
#include "support/result_sets.h"
#include "support/xml.h"

namespace assay::report {
namespace {

std::string html_of(const ResultSet& results) {
  return to_html(document_of(results), results);
}

std::size_t times_in(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

// The content of the script element with this id.
std::string embedded(const std::string& page, const std::string& id) {
  const std::size_t element = page.find(" id=\"" + id + "\"");
  if (element == std::string::npos) return "";
  const std::size_t begin = page.find('>', element) + 1;
  return page.substr(begin, page.find("</script>", begin) - begin);
}

// What people read: without style, scripts and embedded data.
std::string body_of(const std::string& page) {
  const std::size_t begin = page.find("<body>");
  return page.substr(begin, page.find("<script", begin) - begin);
}

TEST(Html, EscapesWhatWouldBeMarkup) {
  EXPECT_EQ(html_words("<a b='c' d=\"e\">&amp;"), "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;amp;");
  EXPECT_EQ(html_words("a\nb\x01"), "a\\nb\\x01");
  EXPECT_EQ(html_words("\u202ea"), "\ufffda");
  EXPECT_EQ(html_words("\xff"), "\\xff");
  EXPECT_EQ(html_text("a\n<b>\n"), "a\n&lt;b&gt;\n");
  EXPECT_EQ(html_text(""), "");
  EXPECT_EQ(script_json(nlohmann::ordered_json{{"a", "</script>&\u2028\u202e"}}),
            R"({"a":"\u003c/script\u003e\u0026\u2028\u202e"})");
  EXPECT_EQ(id_of("How it was measured (2)"), "how-it-was-measured-2-");
}

TEST(Html, ADocumentHasItsBlocksInOrder) {
  Document document;
  document.title = "T & t";
  Section section{"A <b>", {}};
  section.add(Paragraph{"p < q"});
  section.add(List{{"one", "two"}});
  section.add(Lines{{"x  y", "z"}});
  section.add(Table{{"Name", "ms"}, {false, true}, {{"a", "1"}}});
  section.add(Paragraph{"on terminals"}, Shown::on_terminals);
  document.sections = {section, Section{"Hidden", {}, Shown::on_terminals}, Section{"Empty", {}}};
  document.sections.push_back({"Last is first", {{Paragraph{"c"}}}, Shown::everywhere, true});
  const std::string page = to_html(document), body = body_of(page);
  EXPECT_EQ(test::why_not_xml(page), "");
  const char* parts[] = {
      "<h1>T &amp; t</h1>",
      "<h2 id=\"part-last-is-first\">Last is first</h2>",
      "<h2 id=\"part-a-b-\">A &lt;b&gt;</h2>",
      "<p>p &lt; q</p>",
      "<ul>\n<li>one</li>\n<li>two</li>\n</ul>",
      "<pre class=\"lines\">x  y\nz</pre>",
      "<thead><tr><th scope=\"col\">Name</th><th scope=\"col\" class=\"n\">ms</th></tr></thead>",
      "<tr><th scope=\"row\">a</th><td class=\"n\">1</td></tr>"};
  std::size_t at = 0;
  for (const char* part : parts) {
    const std::size_t next = body.find(part, at);
    ASSERT_NE(next, std::string::npos) << part << body;
    at = next;
  }
  for (const char* hidden : {"on terminals", "Hidden", "Empty"})
    EXPECT_EQ(body.find(hidden), std::string::npos) << hidden;
  EXPECT_EQ(html_list(List{std::vector<std::string>(13, "i")}).find("<details>"), 0U)
      << "a long list is folded";
}

TEST(HtmlPage, AnswersFirstAndIsWellFormed) {
  const std::string page = html_of(test::full_results()), body = body_of(page);
  EXPECT_EQ(test::why_not_xml(page), "");
  std::size_t at = 0;
  for (const char* part :
       {"<h1>Assay: demo</h1>", ">Answer</h2>", "id=\"plot-latency-by-memory\"", ">Takeaways</h3>",
        ">Failed cases</h2>", ">Results</h2>", "<table id=\"rows\">", ">Generated texts</h2>",
        ">Warnings</h2>", ">Precision trade-off</h2>", ">Figures</h2>", ">Definitions</h2>", ">Machine</h2>",
        ">Settings and data</h2>"}) {
    const std::size_t next = body.find(part, at);
    ASSERT_NE(next, std::string::npos) << part;
    at = next;
  }
  EXPECT_EQ(times_in(body, "<h1>"), 1U);
  EXPECT_EQ(times_in(body, "<main "), 1U);
  // Each head cell says what it heads, each plot what it shows.
  EXPECT_EQ(times_in(body, "<th "), times_in(body, "<th scope=\""));
  EXPECT_EQ(times_in(body, "<svg "), times_in(body, "<svg class=\"plot\" role=\"img\" aria-labelledby=\""));
  EXPECT_EQ(times_in(body, "<svg "), times_in(body, "<desc "));
  EXPECT_NE(body.find("<td class=\"verdict faster\" data-v=\"0.5\" title=\"nf4 is 2.00x [1.96, 2.04] "
                      "faster than float32\">faster 2.00x <small>[1.96, 2.04]</small></td>"),
            std::string::npos);
  EXPECT_NE(body.find("<td class=\"verdict base\" data-v=\"1\">baseline</td>"), std::string::npos);
  EXPECT_NE(body.find("failed: not enough memory"), std::string::npos);
  EXPECT_NE(body.find("The second half of the runs was slower"), std::string::npos);
  EXPECT_NE(body.find("2 configurations generate this text."), std::string::npos);
  EXPECT_NE(body.find(html_words(metric("total_latency_s").definition)), std::string::npos);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_LT(page.size(), std::size_t{200} << 10);
}

TEST(HtmlPage, MarksWhereATextLeavesTheFirst) {
  ResultSet results = test::full_results();
  results.texts[0].text = "na\u00efve man";
  results.texts[1].text = "na\u00e9 man";
  const std::string body = body_of(html_of(results));
  EXPECT_NE(body.find("<bdi>na\u00efve man</bdi>"), std::string::npos);
  EXPECT_NE(body.find("<bdi>na<mark>\u00e9</mark> man</bdi>"), std::string::npos)
      << "a character is not split";
  EXPECT_NE(body.find("Differs from the first text after 2 characters."), std::string::npos);
  EXPECT_NE(
      body.find("<p class=\"note\">distinct-2 1.00 (baseline 1.00), seq-rep-4 0.00 (baseline 0.00)</p>"),
      std::string::npos)
      << body;
  EXPECT_NE(body.find("no precision shows visible degradation"), std::string::npos);
  results.texts[1].text = "na\u00efve";
  EXPECT_NE(body_of(html_of(results)).find("<bdi>na\u00efve<mark>(ends here)</mark></bdi>"),
            std::string::npos);
}

TEST(HtmlPage, EmbedsItsData) {
  ResultSet results = test::full_results();
  results.rows[0].step_s = {std::vector<double>(100, 0.001)};
  std::string page = html_of(results);
  const auto data = nlohmann::ordered_json::parse(embedded(page, "results-json"));
  EXPECT_EQ(body_of(html_of(results_from_json(data, "the page"))), body_of(page)) << "no figure is lost";
  EXPECT_EQ(data["texts"], results_json(results)["texts"]);
  EXPECT_EQ(page.find("data-without"), std::string::npos);
  // A sample has the digits of its clock; what is counted or scored has all.
  results.rows[0].set("total_latency_s", value_of_repeats({0.00044941100000000004, 0.0004049940000000001}));
  results.rows[0].set("perplexity", 12.345678901234567);
  results.rows[0].set("current_rss_bytes", value_of_repeats({12345678901.0, 12345678903.0}));
  results.rows[0].step_s = {{0.00034407400000000003, 0.0123456789}};
  const auto rounded = nlohmann::json::parse(embedded(html_of(results), "results-json"))["rows"][0];
  EXPECT_EQ(rounded["values"]["total_latency_s"]["samples"].dump(), "[0.000449411,0.000404994]");
  EXPECT_EQ(rounded["step_s"].dump(), "[[0.000344074,0.0123457]]");
  EXPECT_EQ(rounded["values"]["perplexity"]["value"], 12.345678901234567);
  EXPECT_EQ(rounded["values"]["current_rss_bytes"]["samples"][0], 12345678901.0);
  // Decode steps are what makes a file large.
  results.rows[0].step_s.assign(80, std::vector<double>(1000, 0.0123457));
  EXPECT_EQ(html_of(results).find("data-without"), std::string::npos) << "0.8 MB";
  results.rows[0].step_s.assign(120, std::vector<double>(1000, 0.0123457));
  page = html_of(results);
  EXPECT_NE(page.find("data-without=\"decode steps\""), std::string::npos);
  const auto less = nlohmann::json::parse(embedded(page, "results-json"));
  EXPECT_FALSE(less["rows"][0].contains("step_s"));
  EXPECT_EQ(less["rows"][0]["label"], "float32");
  results.caption = std::string(2 * kMostEmbedded, 'x');
  EXPECT_EQ(embedded(html_of(results), "results-json"), "");
}

TEST(HtmlPage, HoldsVerdictsForEveryBaseline) {
  ResultSet results = test::full_results();
  std::vector<SampleId> places;
  for (int process = 0; process < 3; ++process)
    for (int round = 0; round < 2; ++round) places.push_back({process, round});
  for (Row& row : results.rows) row.places = places;
  const auto pairs = nlohmann::json::parse(embedded(html_of(results), "pairs"));
  ASSERT_EQ(pairs.size(), 1U);
  EXPECT_EQ(pairs[0]["scenario"], "trade-off");
  EXPECT_EQ(pairs[0]["baseline"], 0);
  EXPECT_EQ(pairs[0]["pairs"], 1);
  EXPECT_EQ(pairs[0]["rows"].size(), 2U) << "the failed row is no baseline";
  EXPECT_TRUE(pairs[0]["cells"]["1:0"][1].get<std::string>().starts_with("faster 2"));
  EXPECT_TRUE(pairs[0]["cells"]["0:1"][1].get<std::string>().starts_with("slower 2"));
  EXPECT_DOUBLE_EQ(pairs[0]["cells"]["0:1"][3].get<double>(), 2);
}

TEST(HtmlPage, SaysThatThereIsNothing) {
  const std::string empty = html_of(ResultSet{});
  EXPECT_EQ(test::why_not_xml(empty), "");
  EXPECT_NE(empty.find("<p>Nothing was measured.</p>"), std::string::npos);
  EXPECT_EQ(empty.find("<table id=\"rows\">"), std::string::npos);
  ResultSet failed;
  for (int i = 0; i < 8; ++i)
    failed.rows.push_back(test::failed_row(Scenario::tradeoff, "case " + std::to_string(i), "no memory"));
  const std::string body = body_of(html_of(failed));
  EXPECT_EQ(test::why_not_xml(html_of(failed)), "");
  EXPECT_NE(body.find("Every case failed; the reasons are below."), std::string::npos);
  EXPECT_NE(body.find("3 more cases with the reason in the table."), std::string::npos);
  EXPECT_EQ(times_in(body, "failed: no memory"), 8U);
  ResultSet alone;
  alone.rows = {test::measured_row(Scenario::baseline, "prompt 1", 1)};
  EXPECT_NE(html_of(alone).find("No recommendation: that takes two configurations"), std::string::npos);
}

TEST(HtmlPage, ShowsHostileTextAsText) {
  const std::string bad =
      "</script><script>alert(1)</script>\"><img src=x onerror='a'>\u202e\u2028 ]]> &amp; \xff\n<!--";
  ResultSet results = test::full_results();
  results.model.id = results.machine.cpu = results.created = results.command = results.caption = bad;
  results.configuration = {{bad, bad}};
  for (Row& row : results.rows) row.label += bad;
  for (Comparison* c : {&results.comparisons[0], &results.other_comparisons[0]}) {
    c->subject += bad;
    c->baseline += bad;
  }
  results.rows[2].reason = bad;
  results.rows[0].parameters[1].second = bad;
  results.rows[0].warnings[0].text = bad;
  results.texts[0].text = results.texts[0].prompt = bad + std::string(10000, 'x');
  results.texts[1].text = bad;
  results.findings = {StatedFinding{bad}};
  results.audit[0].configuration = bad;
  const std::string page = html_of(results);
  EXPECT_EQ(test::why_not_xml(page), "");
  for (const char* markup : {"<script>alert", "<img", "<!--", "\u202e", "\u2028", "\xff"})
    EXPECT_EQ(page.find(markup), std::string::npos) << markup;
  // The data are what they were.
  const auto data = nlohmann::json::parse(embedded(page, "results-json"));
  EXPECT_EQ(data["rows"][2]["label"], "fp4" + bad.substr(0, bad.find('\xff')) + "\ufffd\n<!--");
  EXPECT_NE(page.find(std::string(9000, 'x')), std::string::npos) << "a long text is shown";
}

TEST(HtmlPage, StaysSmallWithSixtyConfigurations) {
  ResultSet results;
  for (int i = 0; i < 60; ++i) {
    Row row = test::measured_row(Scenario::tradeoff, "configuration " + std::to_string(i), 0.1 + 0.01 * i);
    row.places = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}};
    row.set("resident_weights_bytes", 1e6 * (60 - i));
    row.step_s.assign(30, std::vector<double>(49, 0.00123456));
    results.rows.push_back(row);
    results.texts.push_back({row.label,
                             "p",
                             std::string(1000, static_cast<char>('a' + i % 26)),
                             {},
                             {},
                             Scenario::tradeoff,
                             row.label});
    if (i == 0) continue;
    Comparison c =
        *compare_rows(results.rows[static_cast<std::size_t>(i)], results.rows[0], "total_latency_s", 0.02);
    results.comparisons.push_back(c);
  }
  const std::string page = html_of(results);
  EXPECT_LT(page.size(), 6'000'000U);
  const auto pairs = nlohmann::json::parse(embedded(page, "pairs"));
  EXPECT_EQ(pairs[0]["pairs"], 60 * 59 / 2);
  EXPECT_EQ(pairs[0]["cells"].size(), 60U * 59U);
}

}  // namespace
}  // namespace assay::report

// Every section of a result's document, word by word.
#include <gtest/gtest.h>

#include "assay/report/render.h"
#include "assay/report/result_document.h"
#include "support/result_sets.h"

namespace assay::report {
namespace {

// A page from one heading to the next.
std::string section_of(const Document& document, const std::string& title) {
  const std::string page = "\n" + to_markdown(document), head = "\n## " + title + "\n";
  const std::size_t at = page.find(head);
  if (at == std::string::npos) return "";
  const std::size_t end = page.find("\n\n## ", at + 1);
  return page.substr(at + 1, end == std::string::npos ? end : end - at);
}
std::string section_of(const ResultSet& results, const std::string& title) {
  return section_of(document_of(results), title);
}

TEST(DocumentSections, OfAScenario) {
  ResultSet results;
  results.model.id = "demo";
  results.model.parameters = 1234;
  results.model.dtype = "bfloat16";
  Row row = test::measured_row(Scenario::baseline, "prompt 1", 0.25);
  row.set("memory_bytes", 1024.5 * 1024 * 1024);
  Row earlier = test::failed_row(Scenario::baseline, "prompt 0", "why");
  earlier.set("memory_bytes", 7);
  results.rows = {earlier, row, test::measured_row(Scenario::lengths, "32 tokens", 0.5),
                  test::measured_row(Scenario::step_times, "cache on", 0.5)};
  Comparison c;
  c.subject = "32 tokens";
  c.baseline = "16 tokens";
  c.metric = "total_latency_s";
  c.verdict = Verdict::higher;
  c.ratio = 1.5;
  c.processes = 5;
  Comparison other = c;
  other.subject = "prompt 1";
  other.verdict = Verdict::no_difference;
  other.ratio = 1;
  Comparison unknown = c;
  unknown.metric = "load_s";  // no row of this label has it
  results.comparisons = {c, other, unknown};
  EXPECT_EQ(section_of(results, "Baseline"),
            "## Baseline\n\n"
            "Each prompt generates with the baseline configuration.\n\n"
            "| Prompt | Footprint (MiB) | Latency (ms) | 95 % CI | vs. 16 tokens | Tokens/s |\n"
            "|---|---:|---:|---:|---|---:|\n"
            "| prompt 0 (failed) | 0.0 | - | - | - | - |\n"
            "| prompt 1 | 1024.5 | 250.0 | \u00b11.0% | tied | 200.0 |\n\n"
            "demo has 1,234 parameters; in bfloat16 they take 1024.50 MiB (1,074,266,112 bytes).\n")
      << "what cells show is no sentence";
  EXPECT_EQ(section_of(results, "Prompt length"),
            "## Prompt length\n\n"
            "The baseline generates from prompts of several lengths.\n\n"
            "| Prompt length | Latency (ms) | 95 % CI | vs. 16 tokens | Tokens/s |\n"
            "|---|---:|---:|---|---:|\n"
            "| 32 tokens | 500 | \u00b11.0% | slower 1.5x | 100.0 |\n");
  EXPECT_EQ(section_of(results, "Decode step times"), "") << "they are a plot";
  const std::string every = section_of(results, "Every metric");
  EXPECT_TRUE(
      every.starts_with("## Every metric\n\n"
                        "docs/METRICS.md defines each metric, and the command assay help metrics prints the "
                        "definitions. The raw "
                        "samples are in results.json and samples.csv.\n\n"
                        "Baseline:\n\n"
                        "| Prompt | Footprint (MiB) | Latency (ms) | 95 % CI | Tokens/s |\n"))
      << every;
  EXPECT_NE(every.find("\n\nPrompt length:\n\n| Prompt length | Latency (ms) | 95 % CI | Tokens/s |\n"),
            std::string::npos)
      << every;
  EXPECT_EQ(every.find("Decode step times"), std::string::npos);
  EXPECT_EQ(every.find("KV cache"), std::string::npos) << "what was not measured";
  EXPECT_EQ(to_terminal(document_of(results), 80).find("is 1.5x slower than"), std::string::npos);
}

// Rows that the trade-off shows too are a table on pages alone; the figures of the text are everywhere.
TEST(DocumentSections, OfPerplexity) {
  ResultSet results;
  Row scored;
  scored.scenario = Scenario::perplexity;
  scored.label = "float32";
  scored.parameters = {{"corpus", "wiki"}, {"protocol", "hf"}};
  scored.set("perplexity", 20.126);
  scored.set("tokens_scored", 345);
  Comparison c;
  c.subject = "float32";
  c.baseline = "nf4";
  c.metric = "perplexity";
  c.verdict = Verdict::no_difference;
  c.margin = 0.02;
  Comparison timed = c;
  timed.metric = "total_latency_s";
  timed.baseline = "nf4";
  results.comparisons = {c, timed};
  results.rows = {scored};
  const std::string begin =
      "## Perplexity\n\n"
      "Every precision scores the same text.\n\n"
      "| Precision | Perplexity | vs. nf4 | Scored (tokens) |\n|---|---:|---|---:|\n| float32 | 20.126 | "
      "tied | 345 "
      "|\n\n"
      "float32 scores 345 tokens of wiki (protocol: hf).\n\n"
      "```\nFinal perplexity: 20.13\n";
  EXPECT_EQ(section_of(results, "Perplexity"), begin + "```\n");
  EXPECT_NE(to_terminal(document_of(results), 80).find("float32        20.126"), std::string::npos);
  Row tradeoff = test::measured_row(Scenario::tradeoff, "float32", 0.12345);
  tradeoff.set("perplexity", 20.126);
  results.rows.push_back(tradeoff);
  EXPECT_EQ(section_of(results, "Perplexity"), begin + "Latency     : 0.123 s (trade-off, float32)\n```\n");
  EXPECT_NE(section_of(results, "Precision trade-off").find("| tied |"), std::string::npos);
  EXPECT_NE(to_terminal(document_of(results), 80)
                .find("Perplexity\n==========\nfloat32 scores 345 tokens of wiki (protocol: hf).\n\n"
                      "Final perplexity: 20.13\n"),
            std::string::npos)
      << to_terminal(document_of(results), 80);
  // Without the number of tokens, or without a perplexity, there is nothing to say.
  results.rows = {scored};
  results.rows[0].values.pop_back();
  EXPECT_EQ(section_of(results, "Perplexity").find("scores 345"), std::string::npos);
  results.rows = {scored};
  results.rows[0].values.erase(results.rows[0].values.begin());
  EXPECT_EQ(section_of(results, "Perplexity").find("Final"), std::string::npos);
}

TEST(DocumentSections, OfTexts) {
  ResultSet results;
  EXPECT_EQ(section_of(results, "Generated texts"), "");
  results.texts = {{"prompt 1", "one", "A", {}, {}},
                   {"float32, prompt 1", "one", "A", {}, {}, Scenario::tradeoff, "float32"},
                   {"int8, prompt 1", "one", "A", {}, {}, Scenario::tradeoff, "int8"},
                   {"nf4, prompt 1", "one", std::string(1001, 'B'), {}, {}, Scenario::tradeoff, "nf4"},
                   {"fp4, prompt 1", "one", "A", {}, {}, Scenario::tradeoff, "fp4"},
                   {"prompt 2", "two", "C", {}, {}},
                   {"empty", "", "D", {}, {}, Scenario::edge_prompts, "empty"}};
  EXPECT_EQ(
      section_of(results, "Generated texts"),
      "## Generated texts\n\n"
      "In 1 prompt no precision shows visible degradation: none ends in a repeated phrase more often than "
      "float32, and perplexities were not measured.\n\n"
      "The first word that differs from the first text stands between \\>\\> and \\<\\<; \"Equal (chars)\" "
      "counts the characters before it. distinct-2 is the share of different pairs of neighbouring tokens, "
      "seq-rep-4 the share of four tokens in a row that a text has had before.\n\n"
      "```\nPrompt: one\n```\n\n"
      "| Generated by | Equal (chars) | Text |\n|---|---:|---|\n| float32 and 2 others | - | A |\n| nf4 | 0 "
      "| "
      "\\>\\>" +
          std::string(40, 'B') + "\\<\\<" + std::string(956, 'B') +
          "... |\n\n"
          "Equal texts: float32, int8, fp4.\n\n"
          "```\nPrompt: two\n```\n\n"
          "| Generated by | Text |\n|---|---|\n| prompt 2 | C |\n\n"
          "```\nEdge-case prompts\n```\n\n"
          "| Generated by | Text |\n|---|---|\n| empty | D |\n");
  const std::string terminal = to_terminal(document_of(results), 60);
  EXPECT_EQ(terminal.find("Edge-case"), std::string::npos);
  EXPECT_EQ(terminal.find("Equal texts"), std::string::npos);
  EXPECT_NE(terminal.find("Prompt: two\n\nGenerated by  Text\n------------  ----\nprompt 2      C\n"),
            std::string::npos)
      << terminal;
  // A terminal shows a text from just before the difference, and how much each repeats.
  results.texts = {
      {"", "one", "It was a dark and stormy night", {}, {1, 2, 3, 4, 5}, Scenario::tradeoff, "f"},
      {"",
       "one",
       "It was a dark and quiet d\u00e9j\u00e0 vu",
       {},
       {1, 1, 1, 1, 1},
       Scenario::tradeoff,
       "nf4"}};
  const std::string narrow = to_terminal(document_of(results), 80);
  EXPECT_NE(narrow.find("0.50  ... a dark and >>quiet<< d\u00e9j\u00e0 vu"), std::string::npos) << narrow;
  const std::string whole = section_of(results, "Generated texts");
  EXPECT_NE(whole.find("| nf4 | 18 | 0.25 | 0.50 | It was a dark and \\>\\>quiet\\<\\< "), std::string::npos)
      << whole;
  EXPECT_NE(whole.find("| f | - | 1.00 | 0.00 | It was a dark and stormy night |"), std::string::npos)
      << whole;
  // The baseline's text of another prompt stands for itself.
  results.texts = {{"prompt 1", "one", "A", {}, {}},
                   {"float32, prompt 1", "another", "B", {}, {}, Scenario::tradeoff, "float32"}};
  EXPECT_NE(section_of(results, "Generated texts").find("| prompt 1 | A |"), std::string::npos);
}

TEST(DocumentSections, OfAnAudit) {
  ResultSet results;
  EXPECT_EQ(section_of(results, "Equivalence audit"), "");
  AuditRow row;
  row.configuration = "float32";
  row.what = "cache off";
  results.audit = {row};
  const std::string rule =
      "## Equivalence audit\n\nKV cache, batching and padding must not change what is generated.";
  const std::string table = "| Configuration | Setting | Result | First difference |\n|---|---|---|---|\n";
  EXPECT_EQ(section_of(results, "Equivalence audit"),
            rule + " 1 setting was checked; no forbidden difference was found.\n\n" + table +
                "| float32 | cache off | equal | - |\n");
  row.what = "batched";
  row.verdict = AuditVerdict::differs_by_definition;
  row.first_divergence = "token 3";
  results.audit.push_back(row);
  EXPECT_EQ(
      section_of(results, "Equivalence audit"),
      rule + " 2 settings were checked; no forbidden difference was found.\n\n" + table +
          "| float32 | cache off | equal | - |\n| float32 | batched | differs by definition | token 3 |\n");
  results.audit[1].verdict = AuditVerdict::differs;
  EXPECT_EQ(section_of(results, "Equivalence audit"),
            rule + "\n\n- float32, batched: results differ although they must not: token 3.\n\n" + table +
                "| float32 | cache off | equal | - |\n| float32 | batched | differs | token 3 |\n");
  EXPECT_EQ(to_terminal(document_of(results), 80).find("First difference"), std::string::npos);
}

// Six findings are shown on a terminal, seven are not.
TEST(DocumentSections, OfFindingsMethodsAndFigures) {
  ResultSet results = test::full_results();
  results.findings.clear();
  for (const char* text : {"a", "b.", "c", "d", "e", "f"}) results.findings.emplace_back(StatedFinding{text});
  EXPECT_EQ(section_of(results, "Findings"), "## Findings\n\n- a.\n- b.\n- c.\n- d.\n- e.\n- f.\n");
  EXPECT_NE(to_terminal(document_of(results), 80).find("Findings\n"), std::string::npos);
  results.findings.emplace_back(StatedFinding{"g"});
  EXPECT_EQ(to_terminal(document_of(results), 80).find("Findings\n"), std::string::npos);
  EXPECT_NE(section_of(results, "Findings").find("- g.\n"), std::string::npos);
  EXPECT_EQ(section_of(results, "How it was measured"),
            "## How it was measured\n\nHow it was done.\n\nBeside a verdict stands the ratio with its "
            "interval, which is corrected for all comparisons of its kind.\n");
  EXPECT_EQ(section_of(results, "Figures"),
            "## Figures\n\n"
            "![Memory of the weights by precision](plots/memory_by_precision.svg)\n\n"
            "![Latency by precision](plots/latency_by_precision.svg)\n\n"
            "![Latency against memory of the weights](plots/latency_by_memory.svg)\n\n"
            "On the Pareto frontier, where no other configuration is at least as good in both figures and "
            "better in "
            "one: nf4. Hollow marks are beaten: another configuration is at least as good in both figures "
            "and better "
            "in one.\n\n"
            "![Memory by cause](plots/memory_by_cause.svg)\n");
  results.rows.clear();
  results.findings.clear();
  results.caption.clear();
  for (const char* title : {"Figures", "Findings", "How it was measured", "Failed cases", "Warnings"})
    EXPECT_EQ(section_of(results, title), "") << title;
}

TEST(DocumentSections, ThatConclude) {
  ResultSet results = test::full_results();
  EXPECT_EQ(section_of(results, "Takeaways"),
            "## Takeaways\n\n"
            "- Memory: the weights of nf4 take 2.5 MiB, 6.4x less than those of float32 (16.0 MiB).\n"
            "- Latency: nf4 is the fastest, 2.00x [1.96, 2.04] faster than float32.\n");
  EXPECT_EQ(section_of(results, "Recommendation"), "");
  EXPECT_EQ(section_of(results, "Failed cases"),
            "## Failed cases\n\n- Precision trade-off, fp4: not enough memory.\n");
  results.status = RunStatus::interrupted;
  EXPECT_EQ(
      section_of(results, "Warnings"),
      "## Warnings\n\n"
      "- The run was interrupted: cases that are not listed were not measured, or not to their end.\n"
      "- The second half of the runs was slower; repeat after the machine has settled (float32; nf4).\n");
  Comparison loss;
  loss.scenario = Scenario::perplexity;
  loss.subject = "nf4";
  loss.baseline = "float32";
  loss.metric = "perplexity";
  loss.interval = statistics::Interval{1, 1.02, 0.95};
  results.comparisons.push_back(loss);
  EXPECT_EQ(
      section_of(results, "Recommendation"),
      "## Recommendation\n\n"
      "- For a small device, choose nf4: its weights take 2.5 MiB, and its perplexity is at most 1.02 times "
      "the baseline's (bound: 1.05 times).\n"
      "- For best quality, choose float32, the baseline: no faster precision is shown to keep its "
      "quality.\n");
  const Document document = document_of(results);
  for (const Section& section : document.sections)
    EXPECT_EQ(section.is_conclusion, section.title == "Takeaways" || section.title == "Recommendation" ||
                                         section.title == "Failed cases" || section.title == "Warnings")
        << section.title;
}

// Two texts of a kind stand for themselves, the third makes the first speak for all; old ones never join.
TEST(DocumentSections, WarningsOfAKindAreGrouped) {
  const auto row_with = [](const std::string& label, std::vector<Warning> warnings) {
    Row row;
    row.label = label;
    row.warnings = std::move(warnings);
    return row;
  };
  using Lines = std::vector<std::string>;
  const Warning one = roofline_warning(101), two = roofline_warning(102), three = roofline_warning(103);
  const auto said = [](int percent, const std::string& where) {
    return fmt::format(
        "The measurement reached at least {} % of the roofline; repeat on an idle machine ({}).", percent,
        where);
  };
  EXPECT_EQ(grouped_warnings({row_with("a", {one}), row_with("b", {two})}),
            (Lines{said(101, "a"), said(102, "b")}));
  EXPECT_EQ(grouped_warnings({row_with("a", {one}), row_with("b", {two}), row_with("c", {three})}),
            (Lines{said(101, "a; with other figures in 2 other rows")}));
  EXPECT_EQ(grouped_warnings(
                {row_with("a", {one}), row_with("b", {two}), row_with("c", {two}), row_with("d", {three})}),
            (Lines{said(102, "b; c; with other figures in 2 other rows")}));
  EXPECT_EQ(grouped_warnings({row_with("a", {one})}), (Lines{said(101, "a")})) << "one row is not all rows";
  EXPECT_EQ(grouped_warnings({row_with("a", {one}), row_with("b", {one})}), (Lines{said(101, "all rows")}));
  EXPECT_EQ(grouped_warnings({row_with("a", {one}), row_with("b", {one}), row_with("c", {})}),
            (Lines{said(101, "a; b")}));
  EXPECT_EQ(grouped_warnings({row_with(std::string(61, 'x'), {one}), row_with("c", {})}),
            (Lines{said(101, std::string(60, 'x') + "...")}));
  std::vector<Row> rows;
  for (const char* text : {"Zeta", "9 lives", "\xc3\xa4", "", "z"})
    rows.push_back(row_with("r", {{WarningKind::other, text}}));
  EXPECT_EQ(grouped_warnings(rows), (Lines{"Zeta (r).", "9 lives (r).", "\xc3\xa4 (r).", " (r).", "Z (r)."}));
  EXPECT_TRUE(grouped_warnings({}).empty());
}

}  // namespace
}  // namespace assay::report

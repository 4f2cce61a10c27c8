// What other tools read: each format is parsed by its own rules, and compared with the figures.
#include "assay/report/formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>
#include <set>

#include <nlohmann/json.hpp>

#include "assay/report/result_document.h"
#include "support/program.h"
#include "support/result_sets.h"

namespace assay::report {
namespace {

const std::string kHostile = "a \"b\" \\ c\n</summary><script>|`x`\xff\u202e";

ResultSet hostile_results() {
  ResultSet results = test::full_results();
  results.model.id = results.machine.cpu = results.created = kHostile;
  for (Row& row : results.rows) row.label += kHostile;
  results.rows[2].reason = kHostile;
  return results;
}

// A reader of OpenMetrics 1.0 that refuses what the specification refuses.
struct OpenMetrics {
  struct Sample {
    std::map<std::string, std::string> labels;
    double value = 0;
  };
  struct Family {
    std::string type, unit, help;
    std::vector<Sample> samples;
  };
  std::map<std::string, Family> families;
  std::string wrong;  // the first line that breaks a rule

  explicit OpenMetrics(const std::string& text) {
    const std::vector<std::string> lines = test::lines_of(text);
    std::string current;
    for (std::size_t i = 0; i + 1 < lines.size() && wrong.empty(); ++i) read(lines[i], current);
    if (lines.empty() || lines.back() != "# EOF" || !text.ends_with("\n")) wrong = "no # EOF at the end";
  }

 private:
  void read(const std::string& line, std::string& current) {
    static const std::regex kMeta("# (TYPE|UNIT|HELP) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)");
    std::smatch part;
    if (std::regex_match(line, part, kMeta)) {
      const std::string name = part[2], word = part[3];
      if (name != current && families.contains(name)) wrong = "families are not contiguous: " + line;
      current = name;
      Family& family = families[name];
      if (!family.samples.empty()) wrong = "metadata after samples: " + line;
      if (part[1] == "TYPE") family.type = word;
      if (part[1] == "HELP") family.help = unescaped(word);
      if (part[1] == "UNIT") {
        family.unit = word;
        if (!name.ends_with("_" + word)) wrong = "the unit is no suffix: " + line;
      }
      return;
    }
    read_sample(line, current);
  }

  void read_sample(const std::string& line, const std::string& current) {
    static const std::regex kSample(
        R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)*)\} (\S+))re");
    static const std::regex kLabel(R"re(([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)")re");
    std::smatch part;
    if (!std::regex_match(line, part, kSample)) return void(wrong = "no sample: " + line);
    Family& family = families[current];
    if (part[1] != (family.type == "info" ? current + "_info" : current))
      wrong = "of another family: " + line;
    Sample sample;
    const std::string labels = part[2];
    for (std::sregex_iterator at(labels.begin(), labels.end(), kLabel), end; at != end; ++at)
      if (!sample.labels.emplace((*at)[1], unescaped((*at)[2])).second) wrong = "a label twice: " + line;
    sample.value = std::stod(part[3]);
    for (const Sample& other : family.samples)
      if (other.labels == sample.labels) wrong = "a sample twice: " + line;
    family.samples.push_back(std::move(sample));
  }

  std::string unescaped(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '"') wrong = "a quote is not escaped: " + text;
      if (text[i] != '\\') {
        out += text[i];
      } else if (i + 1 < text.size() && std::string("\\\"n").find(text[i + 1]) != std::string::npos) {
        out += text[++i] == 'n' ? '\n' : text[i];
      } else {
        wrong = "an unknown escape: " + text;
      }
    }
    return out;
  }
};

TEST(OpenMetrics, HoldsTheFiguresInBaseUnits) {
  ResultSet results = test::full_results();
  results.rows[0].set("step_latency_ms", 2.5);
  results.rows[0].set("percent_of_roofline", 64);
  results.rows[0].set("roofline_gb_s", 12.5);
  results.rows.push_back(results.rows[0]);  // the same labels again
  const OpenMetrics read(to_openmetrics(results));
  EXPECT_EQ(read.wrong, "");
  const auto& latency = read.families.at("assay_total_latency_seconds");
  EXPECT_EQ(latency.type, "gauge");
  EXPECT_EQ(latency.unit, "seconds");
  EXPECT_EQ(latency.help, metric("total_latency_s").definition);
  ASSERT_EQ(latency.samples.size(), 2U);
  EXPECT_EQ(latency.samples[1].labels.at("case"), "nf4");
  EXPECT_EQ(latency.samples[1].labels.at("scenario"), "trade-off");
  EXPECT_EQ(latency.samples[1].labels.at("model"), "demo");
  EXPECT_DOUBLE_EQ(latency.samples[1].value, 0.1);
  EXPECT_DOUBLE_EQ(read.families.at("assay_total_latency_ci_low_seconds").samples[1].value, 0.099);
  EXPECT_DOUBLE_EQ(read.families.at("assay_total_latency_ci_high_seconds").samples[1].value, 0.101);
  EXPECT_DOUBLE_EQ(read.families.at("assay_step_latency_seconds").samples[0].value, 0.0025);
  EXPECT_DOUBLE_EQ(read.families.at("assay_roofline_bytes_per_second").samples[0].value, 12.5e9);
  EXPECT_EQ(read.families.at("assay_resident_weights_bytes").unit, "bytes");
  EXPECT_EQ(read.families.at("assay_case_failed").samples[2].value, 1);
  EXPECT_EQ(read.families.at("assay_run").samples[0].labels.at("version"), "0.1.0");
}

TEST(OpenMetrics, TellsEveryMetricOfTheCatalogueApart) {
  ResultSet results = test::full_results();
  for (const Metric& m : metric_catalogue())
    results.rows[0].set(m.tag, Value{1, statistics::Interval{1, 1, 0.95}, {}});
  const OpenMetrics read(to_openmetrics(results));
  EXPECT_EQ(read.wrong, "");
  // Each with its two ends, the run and the failures.
  EXPECT_EQ(read.families.size(), 3 * metric_catalogue().size() + 2);
  // What these endings mean to a reader is no gauge.
  for (const auto& [name, family] : read.families)
    for (const char* reserved : {"_total", "_count", "_sum", "_bucket", "_created", "_info"})
      EXPECT_FALSE(name.ends_with(reserved)) << name;
}

TEST(OpenMetrics, EscapesHostileTextAndHoldsNothingOfAnEmptyRun) {
  const OpenMetrics read(to_openmetrics(hostile_results()));
  EXPECT_EQ(read.wrong, "");
  EXPECT_EQ(read.families.at("assay_total_latency_seconds").samples.size(), 2U);
  EXPECT_EQ(OpenMetrics(to_openmetrics(ResultSet{})).wrong, "");
}

TEST(BenchmarkAction, HasAnEntryForEachFigureOfTheDirection) {
  ResultSet results = test::full_results();
  results.rows[0].set("tokens_per_sec", INFINITY);
  const auto smaller = nlohmann::json::parse(to_benchmark_action(results, Better::lower));
  std::set<std::string> names;
  for (const auto& entry : smaller) {
    EXPECT_TRUE(names.insert(entry.at("name")).second) << entry;
    EXPECT_TRUE(entry.at("unit").is_string());
    EXPECT_TRUE(entry.at("value").is_number());
    for (const char* key : {"range", "extra"})
      EXPECT_TRUE(!entry.contains(key) || entry[key].is_string()) << entry;
  }
  EXPECT_EQ(smaller[1]["name"], "Precision trade-off / float32 / Latency");
  EXPECT_EQ(smaller[1]["unit"], "ms");
  EXPECT_EQ(smaller[1]["value"], 200);
  EXPECT_EQ(smaller[1]["range"], "[198, 202]");
  EXPECT_EQ(smaller[1]["extra"],
            "model: demo\nconfiguration: float32\n6 runs in 1 process\nprocessor: a CPU");
  const auto bigger = nlohmann::json::parse(to_benchmark_action(results, Better::higher));
  ASSERT_EQ(bigger.size(), 1U) << "infinity is no number of JSON";
  EXPECT_EQ(bigger[0]["name"], "Precision trade-off / nf4 / Throughput");
  EXPECT_EQ(bigger[0]["value"], 500);
  EXPECT_EQ(nlohmann::json::parse(to_benchmark_action(ResultSet{}, Better::lower)), nlohmann::json::array());
  EXPECT_TRUE(nlohmann::json::accept(to_benchmark_action(hostile_results(), Better::lower)));
}

TEST(GithubSummary, AnswersFirstAndFoldsTheRest) {
  const ResultSet results = test::full_results();
  const std::string page = to_github(document_of(results), results);
  std::size_t at = 0;
  for (const char* part : {"## Assay: demo\n", "a CPU, 2026-01-31T12:00:00Z", "### Precision trade-off\n",
                           "| nf4 |", "### Takeaways", "### Failed cases",
                           "<summary>Precision trade-off</summary>\n\n", "<summary>Warnings</summary>"}) {
    const std::size_t next = page.find(part, at);
    ASSERT_NE(next, std::string::npos) << part << page;
    at = next;
  }
  for (const char* absent : {"plots/", "Every metric", "<summary>Figures"})
    EXPECT_EQ(page.find(absent), std::string::npos) << absent;
  // The one table has the columns that matter most; the whole one is folded.
  const std::string head =
      page.substr(page.find("| Precision |"), page.find('\n', page.find("| Precision |")));
  EXPECT_LE(std::count(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(head.find('\n')), '|'), 8);
}

TEST(GithubSummary, EscapesAndStaysWithinWhatGitHubTakes) {
  ResultSet results = hostile_results();
  EXPECT_EQ(to_github(document_of(results), results).find("<script>"), std::string::npos);
  EXPECT_EQ(to_github(document_of(results), results).find("\u202e"), std::string::npos);
  results.findings.assign(20'000, StatedFinding{std::string(100, 'x')});
  const std::string page = to_github(document_of(results), results);
  EXPECT_LT(page.size(), std::size_t{1} << 20);
  EXPECT_NE(page.find("Left out, because GitHub takes 1 MiB: Findings."), std::string::npos);
}

}  // namespace
}  // namespace assay::report

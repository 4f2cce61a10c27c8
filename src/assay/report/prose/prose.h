// Sentences of facts: the only place where results become prose. Each function takes values of results/ and
// gives whole sentences; those of comparisons and warnings are clauses without a full stop.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "assay/results/compare_results.h"
#include "assay/results/finding.h"
#include "assay/results/limited_choice.h"
#include "assay/results/results.h"
#include "assay/results/takeaways.h"
#include "assay/results/text_quality.h"

namespace assay::report {

// Problem and remedy: "the processor's frequency varied by ...; repeat with a fixed frequency governor".
std::string sentence_of(const Warning& warning);
std::vector<std::string> sentences_of(std::span<const Warning> warnings);

// The verdict in a word or two, as the metric's direction has it: "faster", "higher", "undecided".
std::string verdict_word(const Comparison& comparison);
// The numbers of a verdict, as sentences and cells show it: of a speed the ratio or its inverse, whichever is
// 1 or more, of other metrics the ratio.
struct Factor {
  double value = 1;
  std::optional<statistics::Interval> interval = {};
  bool is_faster = false;
  int digits = 3;  // where no interval tells
};
Factor shown_factor(const Comparison& comparison);
// "[1.02, 2.6]": a bound that excludes 1 is not rounded to it.
std::string interval_of(const Factor& factor);
// About what more would decide an undecided comparison, to two digits; empty where it is not known, or more
// than a hundred times what there is.
struct NeededMore {
  double count = 0;
  bool is_text = false;  // tokens, else processes
  double seconds = 0;    // 0: not known
};
std::optional<NeededMore> needed_more(const Comparison& comparison);
std::string shown_count(const NeededMore& needed);  // "9 more processes", "1500 more tokens"

// "1.59x faster", "1.2x slower"; the factor is 1 or more. Of a metric that is no speed, "ratio 1.2".
std::string factor_of(const Comparison& comparison);
// The same with the interval: "1.59x [1.5, 1.7] faster".
std::string factor_with_interval(const Comparison& comparison);
// What a cell tells of the interval of the ratio: nothing, the half-width in percent ("±4%", for narrow
// tables), or both ends ("[1.52, 1.66]").
enum class Detail { none, percent, ends };
// As a cell of a table has it: "faster 1.59x ±4%", "tied", "undecided: 9 more processes, 46 s", "no verdict".
std::string verdict_cell(const Comparison& comparison, Detail detail = Detail::percent);
// "nf4 is 1.59x [1.5, 1.7] faster than float32".
std::string sentence_of(const Comparison& comparison);
// The same of two runs; bytes are counted: "B takes 3 bytes fewer than A: 2 instead of 5". Where nothing was
// tested, it says why.
std::string sentence_of(const ComparedRow& row);

// One sentence, or two; of many findings of a kind, sentences about all of them.
std::vector<std::string> sentences_of(const Finding& finding);
std::vector<std::string> sentences_of(std::span<const Finding> findings);
// Whether a passage makes up most of the text, and more of it than in the baseline's.
bool repeats_more(const TextDivergence::Prompt& prompt);
std::string sentence_of(const Takeaway& takeaway);
std::vector<std::string> sentences_of(std::span<const Takeaway> takeaways);
// One for each choice that is made.
std::vector<std::string> sentences_of(const Recommendation& recommended);

// The choice, its runner-up, the limits that bind; or what comes nearest.
std::vector<std::string> sentences_of(const LimitedChoice& choice);
// The same of a result set with limits; empty where it has none.
std::vector<std::string> answer_to_limits(const ResultSet& results);

// What a budget of time left out, a sentence for each study, with the command that would measure it at its
// end; where none is known, that of the whole `run` without a budget.
std::vector<std::string> sentences_of(std::span<const LeftOut> left_out, const std::string& run = "");

// What --fail-on says of a comparison, a line for each row that breaks the rule.
std::vector<std::string> broken_by(const RuleOutcome& outcome);

// From which precision on generated texts are visibly worse, with the text that shows it.
std::string sentence_of(const VisibleDegradation& degradation);

// "45 s", "12 min", "1.5 h".
std::string shown_duration(double seconds);
// "4,470,272".
std::string with_commas(std::int64_t number);
// "5.2 MiB".
std::string shown_mebibytes(double bytes);
// A row's label as a sentence has it: "the model as stored" for "as stored".
std::string in_sentence(const std::string& label);
// The same at the start of one: "The model as stored"; another label stays as it is written.
std::string at_start(const std::string& label);
// "a", "a and b", "a, b and 3 others"; three or more precisions of a kind are named together: "the 4-bit
// precisions (nf4, fp4 and nf4-dq)".
std::string joined(std::span<const std::string> labels);

// What the comparisons of a table's rows with their baseline have in common, where its cells show each
// verdict: how many are faster, from which to which; those that go the other way; what is undecided, and what
// would decide it. Of one comparison nothing is left to say but why it has no verdict.
std::vector<std::string> shared_sentences(std::span<const Comparison> comparisons);

}  // namespace assay::report

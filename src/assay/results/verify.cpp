#include "assay/results/verify.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "assay/base/error.h"
#include "assay/base/format.h"

namespace assay {

namespace {

// Counted figures, and whether other kernels may change them.
struct Counted {
  std::string_view tag;
  bool depends_on_kernels = true;
};
constexpr std::array kCounted = {
    Counted{"memory_bytes", false},  Counted{"resident_weights_bytes"},
    Counted{"working_memory_bytes"}, Counted{"kv_cache_bytes"},
    Counted{"perplexity"},           Counted{"kl_mean"},
    Counted{"top1_agreement"},       Counted{"accuracy"},
};
constexpr std::string_view kVerifiedSpeed = "total_latency_s";

bool is_same_case(const Row& a, const Row& b) {
  return a.scenario == b.scenario && a.label == b.label &&
         a.parameter("configuration") == b.parameter("configuration");
}

// Kernels and threads' packing decide the order of sums; a device does anyway.
std::string why_bits_differ(const Row& theirs, const Row& ours) {
  for (const char* key : {"kernels", "device", "dtype"})
    if (theirs.parameter(key) != ours.parameter(key))
      return fmt::format("{} '{}' there and '{}' here round differently", key, theirs.parameter(key),
                         ours.parameter(key));
  return "";
}

// False where the samples beside the value give another: one of them is wrong.
bool is_of_its_samples(const Row& row, const Value& value) {
  if (value.samples.empty() || value.samples.size() != row.places.size()) return true;
  constexpr double kRounding = 2e-5;  // the download of a page has six digits of each
  const double made = value_of_processes(value.samples, row.places).value;
  return std::abs(made - value.value) <= kRounding * std::max(std::abs(made), std::abs(value.value));
}

class Verifier {
 public:
  Verifier(const ResultSet& theirs, const ResultSet& ours, double drift)
      : theirs_(theirs), ours_(ours), drift_(drift), compared_(compare_results(theirs, ours, drift)) {}

  Verification run() {
    found_.unlike = compared_.unlike;
    for (const Row& row : theirs_.rows) {
      VerifiedRow verified{row.scenario, row.label, row.parameter("configuration"), {}};
      const auto own = std::find_if(ours_.rows.begin(), ours_.rows.end(),
                                    [&](const Row& r) { return is_same_case(r, row); });
      if (row.status != RowStatus::ok)
        verified.reason = "it failed there: " + row.reason;
      else if (own == ours_.rows.end())
        verified.reason = "it was not measured here";
      else if (own->status != RowStatus::ok)
        verified.reason = "it failed here: " + own->reason;
      else
        add_figures(row, *own, verified);
      found_.rows.push_back(std::move(verified));
    }
    return std::move(found_);
  }

 private:
  void add_figures(const Row& theirs, const Row& ours, VerifiedRow& verified) {
    const std::string unlike = why_bits_differ(theirs, ours);
    add_ids(theirs, unlike, verified);
    for (const Counted& counted : kCounted) {
      const Value *a = theirs.find(counted.tag), *b = ours.find(counted.tag);
      if (a == nullptr || b == nullptr) continue;
      VerifiedFigure figure{std::string(counted.tag), Outcome::reproduced, a->value, b->value, {}};
      if (a->value != b->value) {
        figure.outcome =
            counted.depends_on_kernels && !unlike.empty() ? Outcome::cannot_tell : Outcome::differs;
        if (figure.outcome == Outcome::cannot_tell) figure.reason = unlike;
      }
      verified.figures.push_back(std::move(figure));
    }
    const Value* latency = theirs.find(kVerifiedSpeed);
    if (latency == nullptr || is_of_its_samples(theirs, *latency))
      add_speed(verified);
    else
      verified.figures.push_back({std::string(kVerifiedSpeed), Outcome::differs, latency->value,
                                  value_of_processes(latency->samples, theirs.places).value,
                                  "the latency is not what the samples beside it give"});
    if (verified.figures.empty()) verified.reason = "it has no figure that both measured";
  }

  // What both generated for a prompt under the row's configuration.
  void add_ids(const Row& row, const std::string& unlike, VerifiedRow& verified) const {
    const auto is_of = [&](const GeneratedText& text) {
      return text.scenario == row.scenario &&
             (text.generated_by.empty() ? text.label : text.generated_by) == row.label;
    };
    bool has_any = false;
    for (const GeneratedText& theirs : theirs_.texts) {
      if (!is_of(theirs)) continue;
      for (const GeneratedText& ours : ours_.texts) {
        if (!is_of(ours) || ours.prompt != theirs.prompt || ours.prompt_ids != theirs.prompt_ids) continue;
        has_any = true;
        const auto [a, b] =
            std::mismatch(theirs.ids.begin(), theirs.ids.end(), ours.ids.begin(), ours.ids.end());
        if (a == theirs.ids.end() && b == ours.ids.end()) break;
        VerifiedFigure figure{"ids", unlike.empty() ? Outcome::differs : Outcome::cannot_tell, 0, 0, unlike};
        if (unlike.empty())
          figure.reason = fmt::format("new token {} of the prompt '{}' is the first that differs",
                                      a - theirs.ids.begin() + 1, theirs.prompt.substr(0, 40));
        verified.figures.push_back(std::move(figure));
        return;
      }
    }
    if (has_any) verified.figures.push_back({"ids", Outcome::reproduced, 0, 0, {}});
  }

  void add_speed(VerifiedRow& verified) {
    for (const ComparedRow& row : compared_.rows) {
      const Comparison& c = row.comparison;
      if (c.metric != kVerifiedSpeed || row.scenario != verified.scenario || row.label != verified.label ||
          row.configuration != verified.configuration)
        continue;
      VerifiedFigure figure{std::string(kVerifiedSpeed), Outcome::cannot_tell, row.a, row.b, {}, c};
      if (!row.unlike.empty() || !row.untested.empty() || !c.interval) {
        figure.reason = !row.unlike.empty()     ? row.unlike
                        : !row.untested.empty() ? row.untested
                                                : "no test of it was made";
      } else if (c.detectable_difference > kMaxUndetected) {
        figure.reason = fmt::format(
            "these processes differ so much that a change of {:.0f} % would be missed too often; repeat with "
            "more processes on a quieter machine",
            100 * kMaxUndetected);
      } else {
        const double low = 1 / (1 + drift_), high = 1 + drift_;
        const bool is_beyond = c.interval->low > high || c.interval->high < low;
        figure.outcome = is_beyond ? Outcome::differs : Outcome::reproduced;
        const double raw = row.a > 0 ? row.b / row.a : 1;
        if (!is_beyond && (raw > high || raw < low))
          figure.reason = fmt::format(
              "the latency is {:.2f} times theirs, which the rooflines of the two machines explain", raw);
        // Hours may have drifted the other way by as much as they explain.
        found_.detectable_difference =
            std::max(found_.detectable_difference, high * high * (1 + c.detectable_difference) - 1);
      }
      verified.figures.push_back(std::move(figure));
    }
  }

  const ResultSet &theirs_, &ours_;
  double drift_;
  ComparedResults compared_;
  Verification found_;
};

Outcome worse(Outcome a, Outcome b) {
  if (a == Outcome::differs || b == Outcome::differs) return Outcome::differs;
  return a == Outcome::cannot_tell ? a : b;
}

}  // namespace

std::string_view name_of(Outcome outcome) {
  constexpr std::string_view kNames[] = {"reproduced", "differs", "cannot_tell"};
  return kNames[static_cast<std::size_t>(outcome)];
}

Outcome VerifiedRow::outcome() const {
  if (figures.empty()) return Outcome::cannot_tell;
  Outcome all = Outcome::reproduced;
  for (const VerifiedFigure& figure : figures) all = worse(all, figure.outcome);
  return all;
}

Outcome Verification::outcome() const {
  Outcome all = rows.empty() ? Outcome::cannot_tell : Outcome::reproduced;
  for (const VerifiedRow& row : rows) all = worse(all, row.outcome());
  return all;
}

Verification verify(const ResultSet& theirs, const ResultSet& ours, double drift) {
  return Verifier(theirs, ours, drift).run();
}

}  // namespace assay

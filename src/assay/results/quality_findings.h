// What studies found out about quality, as values (finding.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace assay {

// The answers of a configuration to the items of a task, beside the baseline's.
struct TaskFlips {
  static constexpr std::string_view kKind = "task_flips";
  std::string subject = {}, baseline = {};
  std::int64_t items = 0, to_wrong = 0, to_right = 0;
  double change = 0, low = 0, high = 0;  // the share of right answers changes so, with an interval of 95 %
  double p_value = 1;                    // McNemar's
  bool is_shown = false;                 // below 5 %, corrected for all configurations (Holm)
  double detectable_change = 0;          // that as many items show nine times in ten
  void fields(auto&& visit) {
    visit("subject", subject);
    visit("baseline", baseline);
    visit("items", items);
    visit("to_wrong", to_wrong);
    visit("to_right", to_right);
    visit("change", change);
    visit("low", low);
    visit("high", high);
    visit("p_value", p_value);
    visit("is_shown", is_shown);
    visit("detectable_change", detectable_change);
  }
};

// The KL divergence of two configurations from the baseline on the same tokens, that of the subject not above
// the other's: those with the smallest weights.
struct KlComparison {
  static constexpr std::string_view kKind = "kl_comparison";
  std::string subject = {}, other = {}, baseline = {};
  double subject_kl = 0, other_kl = 0;             // nats per token
  double difference_low = 0, difference_high = 0;  // interval of other - subject; both 0: too few tokens
  bool is_decided = false;                         // the difference is shown not to be 0
  bool is_within_floor = false;                    // both are below what counts as above the noise floor
  std::int64_t tokens_needed = 0;                  // that would probably decide; 0: not known
  void fields(auto&& visit) {
    visit("subject", subject);
    visit("other", other);
    visit("baseline", baseline);
    visit("subject_kl", subject_kl);
    visit("other_kl", other_kl);
    visit("difference_low", difference_low);
    visit("difference_high", difference_high);
    visit("is_decided", is_decided);
    visit("is_within_floor", is_within_floor);
    visit("tokens_needed", tokens_needed);
  }
};

}  // namespace assay

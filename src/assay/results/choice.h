// What a run chose to measure within its budget of time, and what it left out.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

struct ChosenStudy {
  std::string name;
  std::optional<std::int64_t> processes = {}, repeats = {};  // unset: as without a budget
  std::optional<std::int64_t> most_tokens = {};              // new tokens of a case; unset: all
  std::set<std::string> left_out = {}, once = {};            // keys of cases (choice_key())
  bool is_measured = true;                                   // false: every case is left out
  double predicted_s = 0;
  double whole_s = 0;  // predicted without a budget

  bool is_whole() const {
    return is_measured && !processes && !repeats && !most_tokens && left_out.empty() && once.empty();
  }
  bool operator==(const ChosenStudy&) const = default;
};

struct Choice {
  double budget_s = 0;
  double before_s = 0;  // that the run had taken when it chose; the budget includes it
  std::vector<ChosenStudy> studies;

  double predicted_s() const;  // the whole run's, from its begin
  double whole_s() const;      // the same without a budget
  bool is_whole() const;
  const ChosenStudy* find(const std::string& study) const;  // null where there is none
  bool operator==(const Choice&) const = default;
};

// Why what was chosen was not measured.
inline constexpr std::string_view kSlower = "the run was slower than predicted";

// What was not measured, or less often than without a budget, and how to measure it.
struct LeftOut {
  std::string study = {}, what = {};  // "lengths", "8176 tokens"
  std::string reason = {};            // empty: it did not fit
  std::string command = {};           // that would measure it; empty: not known
  double predicted_s = 0;             // the command's; 0: not known
  bool operator==(const LeftOut&) const = default;
};

}  // namespace assay

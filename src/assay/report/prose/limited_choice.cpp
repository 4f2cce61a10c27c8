// What to choose under a user's own limits.
#include <algorithm>
#include <span>

#include "assay/base/format.h"
#include "assay/report/prose/prose.h"

namespace assay::report {

namespace {

std::string goal_of(Goal goal) {
  switch (goal) {
    case Goal::fastest:
      return "fastest";
    case Goal::smallest:
      return "smallest";
    case Goal::throughput:
      return "one with the highest throughput";
  }
  return "";
}

std::string figure_of(Goal goal, double value) {
  switch (goal) {
    case Goal::fastest:
      return fmt::format("latency {:.3g} ms", 1e3 * value);
    case Goal::smallest:
      return fmt::format("weights {}", shown_mebibytes(value));
    case Goal::throughput:
      return fmt::format("{:.3g} tokens/s", value);
  }
  return "";
}

std::string limits_of(const Limits& limits) {
  return limits.limits.empty() ? "without limits" : "within " + text_of(limits);
}

// What the chosen one is beside those that it does not beat.
std::string beside_others(const LimitedChoice& choice) {
  std::vector<std::string> rest;
  for (const std::string& label : std::span(choice.best).subspan(1))
    if (std::find(choice.tied.begin(), choice.tied.end(), label) == choice.tied.end()) rest.push_back(label);
  const std::string untold =
      (choice.is_tested ? "it is undecided against " : "no test tells it from ") + joined(rest);
  if (choice.tied.empty()) return " it has the best figure, but " + untold;
  return fmt::format(" it is tied with {} for the {}{}", joined(choice.tied), goal_of(choice.limits.goal),
                     rest.empty() ? "" : ", and " + untold);
}

std::string best_sentence(const LimitedChoice& choice) {
  const Goal goal = choice.limits.goal;
  std::string text = fmt::format("Choose {}: ", in_sentence(choice.best.front()));
  if (choice.best.size() == 1)
    text += fmt::format("it is the {} {}", goal_of(goal), limits_of(choice.limits));
  else
    text += limits_of(choice.limits) + beside_others(choice);
  return text + fmt::format(" ({}).", figure_of(goal, choice.goal_value));
}

std::string runner_up_sentence(const LimitedChoice& choice) {
  if (choice.runner_up.empty()) return "";
  if (const auto& c = choice.runner_up_against_best)
    return fmt::format("The runner-up is {}: {}.", in_sentence(choice.runner_up), sentence_of(*c));
  return fmt::format("The runner-up is {} ({}).", in_sentence(choice.runner_up),
                     figure_of(choice.limits.goal, choice.runner_up_value));
}

std::string gain_of(Goal goal, double gain) {
  if (goal == Goal::smallest) return fmt::format("its weights take {:.3g}x as much", gain);
  const double factor = goal == Goal::throughput ? gain : 1 / gain;
  return fmt::format("its {} is {:.3g}x that of the choice",
                     goal == Goal::throughput ? "throughput" : "speed", factor);
}

std::string binding_sentence(const LimitedChoice& choice, const LimitedChoice::Binding& binding) {
  const LimitKind& kind = kind_of(binding.limit);
  const std::string more = fmt::format("{} ({} {} {}; {})", in_sentence(binding.without_it), kind.text,
                                       kind.unit == "B" ? "is" : "may be", shown(kind, binding.value),
                                       gain_of(choice.limits.goal, binding.gain));
  if (binding.is_within_10)
    return fmt::format("The limit {} binds: relaxed by 10 %, it would let in {}.", text_of(binding.limit),
                       more);
  return fmt::format(
      "The limit {} binds: relaxing it by 10 % changes nothing, without it the choice would be {}.",
      text_of(binding.limit), more);
}

std::string nearest_sentence(const LimitedChoice& choice) {
  if (choice.nearest.empty()) return "";
  std::vector<std::string> parts;
  for (const LimitedChoice::Excess& excess : choice.nearest_excess) {
    const LimitKind& kind = kind_of(excess.limit);
    parts.push_back(fmt::format("its {} {} {} (limit: {} {})", kind.text, kind.unit == "B" ? "is" : "may be",
                                shown(kind, excess.value), kind.is_minimum ? "at least" : "at most",
                                shown_bound(excess.limit)));
  }
  return fmt::format("The nearest is {}: {}.", in_sentence(choice.nearest), fmt::join(parts, ", and "));
}

void add(std::vector<std::string>& sentences, std::string sentence) {
  if (!sentence.empty()) sentences.push_back(std::move(sentence));
}

}  // namespace

std::vector<std::string> sentences_of(const LimitedChoice& choice) {
  std::vector<std::string> all;
  if (choice.best.empty()) {
    add(all, fmt::format("None of {} is certain to stay {}.",
                         choice.candidates == 1 ? "1 configuration"
                                                : fmt::format("{} configurations", choice.candidates),
                         limits_of(choice.limits)));
    add(all, nearest_sentence(choice));
  } else {
    add(all, best_sentence(choice));
    add(all, runner_up_sentence(choice));
    for (const LimitedChoice::Binding& binding : choice.binding) add(all, binding_sentence(choice, binding));
  }
  if (!choice.uncertain.empty())
    add(all,
        fmt::format(
            "A bound lies within the measured interval of {}: more processes, or a longer text, may decide.",
            joined(choice.uncertain)));
  for (const std::string& name : choice.unmeasured)
    add(all, fmt::format("No configuration has a figure for {}; a run that measures it can decide.", name));
  return all;
}

std::vector<std::string> answer_to_limits(const ResultSet& results) {
  if (!results.limits) return {};
  const auto choice = choose_within(results, *results.limits);
  if (choice) return sentences_of(*choice);
  if (results.limits->goal == Goal::throughput)
    return {"There is nothing to choose among: no batches were measured, as the study batches does."};
  return {"There is nothing to choose among: no configurations were compared, as a trade-off does."};
}

}  // namespace assay::report

#include "assay/cli/other_model.h"

#include "assay/base/error.h"
#include "assay/checkpoint/source.h"
#include "assay/cli/options.h"

namespace assay::cli {

namespace {

// Why none of the candidates exists; empty where one does. What is wrong with one that exists is found when
// it is opened.
std::string why_no_model(const std::vector<std::string>& candidates) {
  std::string reasons;
  for (const std::string& candidate : candidates) try {
      locate_model(candidate);
      return "";
    } catch (const NoSuchModel& error) {
      reasons += (reasons.empty() ? "" : "; ") + std::string(error.what());
    } catch (const Error&) {
      return "";
    }
  return reasons;
}

// Why a word is no precision: with the names of all and the nearest, unless it can only be a path.
std::string why_no_precision(const std::string& word, const RunConfig& common) try {
  run_config_from_text(word, common);
  return "";
} catch (const FieldError& error) {
  return word.find('/') == std::string::npos ? fmt::format(" ({})", error.problem()) : "";
}

}  // namespace

bool is_precision(const std::string& word, const RunConfig& common) {
  try {
    run_config_from_text(word, common);
    return true;
  } catch (const FieldError&) {
    if (word.starts_with("recipe:")) throw;  // what is wrong in the recipe is to be said
    return false;
  }
}

std::vector<std::string> model_or_precision(const std::string& argument, const std::string& word,
                                            const RunConfig& common) {
  std::vector<std::string> candidates = candidates_of(word);
  if (const std::string why = why_no_model(candidates); !why.empty())
    throw UsageError("{}: expected a precision or a model, found '{}': no precision{} and no model ({})",
                     argument, word, why_no_precision(word, common), why);
  return candidates;
}

std::vector<std::string> other_model(const std::string& word, const RunConfig& common) {
  std::vector<std::string> candidates = candidates_of(word);
  const std::string why = why_no_model(candidates);
  if (why.empty()) return candidates;
  if (is_precision(word, common))
    throw FieldError("with", "expected a model, found '{}', a precision, which --precision takes", word);
  throw FieldError("with",
                   "expected a model, found '{}': no model ({}) and no precision{}, which "
                   "--precision would take",
                   word, why, why_no_precision(word, common));
}

}  // namespace assay::cli

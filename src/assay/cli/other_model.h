// Words of a command line that name a model beside the first one, where a precision may have been meant.
#pragma once

#include <string>
#include <vector>

#include "assay/config/run_config.h"

namespace assay::cli {

// Whether run_config_from_text() reads the word as a precision. Throws FieldError for a recipe that cannot be
// read.
bool is_precision(const std::string& word, const RunConfig& common);

// The candidates of a word that stands where a precision or a model may stand and is no precision. Throws
// UsageError, which names `argument` and both readings, where it names no model that exists either.
std::vector<std::string> model_or_precision(const std::string& argument, const std::string& word,
                                            const RunConfig& common);

// The candidates of a value of --with, which takes models alone. Throws FieldError where it names none that
// exists, and says what it is as a precision.
std::vector<std::string> other_model(const std::string& word, const RunConfig& common);

}  // namespace assay::cli

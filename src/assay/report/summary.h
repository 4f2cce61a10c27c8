// The words around the table: the baseline block, the texts, the figures of the corpus.
#pragma once

#include <string>

#include "assay/results/results.h"

namespace assay {

// What `assay run` prints, without the load line: baseline, texts, perplexity, the table and its caption.
std::string summary_text(const ResultSet& results);
// The same as a Markdown document.
std::string summary_markdown(const ResultSet& results);

}  // namespace assay

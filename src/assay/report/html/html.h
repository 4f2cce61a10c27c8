// Documents as one HTML file that needs no other file and no network: what people open first and send on.
#pragma once

#include <string>

#include "assay/report/document.h"
#include "assay/results/results.h"

namespace assay::report {

// The sections of a document, in the order of Markdown's. Markup is well-formed XML too; text that would be
// markup is escaped, and characters that would change the direction of what follows are replaced.
std::string to_html(const Document& document);

// The page of a result set, whose document this is: question, answer, frontier and takeaways first, then a
// table of all rows that sorts, filters and changes its baseline, the texts side by side, the sections of the
// document, every metric's definition, the machine, and results.json itself. Without JavaScript everything
// can be read. The embedded results.json has six digits of sampled figures, which no two runs share, and
// all of the others; above kMostWithSteps bytes it lacks the decode steps, above kMostEmbedded even then the
// page refers to the file.
inline constexpr std::size_t kMostWithSteps = 1'000'000;
inline constexpr std::size_t kMostEmbedded = std::size_t{3} << 20;
std::string to_html(const Document& document, const ResultSet& results);

}  // namespace assay::report

#include "assay/harness/first_table.h"

#include "assay/statistics/statistics.h"

namespace assay {

FirstTable::FirstTable(Show show, TimeSource clock)
    : show_(std::move(show)), clock_(std::move(clock)), begin_(clock_()) {}

OnCases FirstTable::teller() {
  return [this](const std::string& sweep, const std::vector<CaseResult>& cases) {
    if (!is_shown_) add(sweep, cases);
  };
}

void FirstTable::add(const std::string& sweep, const std::vector<CaseResult>& cases) {
  if (figures_.empty() || figures_.back().first != sweep)
    figures_.emplace_back(sweep, std::vector<FirstFigures>{});
  std::vector<FirstFigures>& own = figures_.back().second;
  own.clear();
  for (const CaseResult& c : cases) {
    if (c.status != RowStatus::ok || c.first.ids.empty()) continue;
    double tokens = 0;
    for (const std::vector<TokenId>& ids : c.first.ids) tokens += static_cast<double>(ids.size());
    const double seconds =
        c.samples.empty() ? c.first.seconds : statistics::median(c.each(&Sample::total_latency_s));
    own.push_back({sweep, c.spec.label, seconds, seconds > 0 ? tokens / seconds : 0, c.samples.size()});
  }
  show_if_due();
}

void FirstTable::show_if_due() {
  if (is_shown_ || elapsed(begin_, clock_()).value < kFirstTable_s) return;
  std::vector<FirstFigures> all;
  for (const auto& [sweep, own] : figures_) all.insert(all.end(), own.begin(), own.end());
  if (all.empty()) return;
  is_shown_ = true;
  show_(all);
}

}  // namespace assay

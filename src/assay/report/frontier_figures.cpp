// The Pareto frontier of a trade-off.
#include <algorithm>

#include "assay/base/format.h"
#include "assay/report/configuration_figures.h"
#include "assay/report/digits.h"
#include "assay/report/figure_points.h"
#include "assay/report/prose/prose.h"
#include "assay/report/text_layout.h"
#include "assay/results/frontier.h"

namespace assay::report {

namespace {

constexpr std::string_view kMemory = "resident_weights_bytes", kDecode = "time_per_output_token_ms",
                           kLatencyTag = "total_latency_s";
constexpr std::size_t kMaxLegend = 20;  // configurations that a marker of their own tells apart

struct Candidate {
  const Row* row;
  Value x, y;
};

std::string value_words(const Value& value, const Metric* metric) {
  return metric == nullptr ? plain_number(value.value) : shown_value(value, *metric);
}

// The configurations of the trade-off that have both figures.
class FrontierFigure {
 public:
  FrontierFigure(const ResultSet& results, std::vector<Candidate> candidates, const Metric* x,
                 const Metric* y)
      : results_(results), candidates_(std::move(candidates)), x_(x), y_(y) {
    std::vector<FrontierPoint> points;
    for (const Candidate& c : candidates_) points.push_back({bounded_of(c.x), bounded_of(c.y)});
    places_ = frontier_of(points);
  }

  Plot plot(std::string title) const {
    Plot plot;
    plot.title = std::move(title);
    plot.subtitle = cut_to_width(terminal_text(results_.model.id), 40) +
                    "; lower and further left is better; whiskers: 95 % intervals";
    plot.has_zero = false;
    constexpr MarkStyle kStyles[] = {MarkStyle::filled, MarkStyle::dotted, MarkStyle::hollow};
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      PlotSeries series{one_line(candidates_[i].row->label, 60), {point(i)}, false};
      series.style = kStyles[static_cast<std::size_t>(places_[i])];
      series.has_legend = candidates_.size() <= kMaxLegend;
      plot.series.push_back(std::move(series));
    }
    add_line(plot);
    plot.caption = caption();
    return plot;
  }

 private:
  static double scale_of(const Metric* metric) { return metric == nullptr ? 1 : metric->scale; }

  PlotPoint point(std::size_t i) const {
    const Candidate& c = candidates_[i];
    const Bounded x = bounded_of(c.x, scale_of(x_)), y = bounded_of(c.y, scale_of(y_));
    PlotPoint p{x.value, y.value, y.low, y.high, x.low, x.high};
    constexpr const char* kPlaces[] = {"on the frontier", "perhaps on the frontier", "not on the frontier"};
    p.text = fmt::format("{}: {}; {}; {}", one_line(c.row->label, 60), value_words(c.x, x_),
                         value_words(c.y, y_), kPlaces[static_cast<std::size_t>(places_[i])]);
    p.row = index_of(results_, *c.row);
    return p;
  }

  // Through the points that are on it for certain.
  void add_line(Plot& plot) const {
    PlotSeries line{"frontier", {}};
    line.has_marks = false;
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      if (places_[i] == OnFrontier::certain) line.points.push_back({point(i).x, point(i).y});
    std::sort(line.points.begin(), line.points.end(),
              [](const PlotPoint& a, const PlotPoint& b) { return a.x != b.x ? a.x < b.x : a.y > b.y; });
    if (line.points.size() > 1) plot.series.push_back(std::move(line));
  }

  std::string caption() const {
    const auto names = [&](OnFrontier place) {
      std::vector<std::string> labels;
      for (std::size_t i = 0; i < places_.size(); ++i)
        if (places_[i] == place) labels.push_back(one_line(candidates_[i].row->label, 60));
      return labels;
    };
    const auto on = names(OnFrontier::certain), perhaps = names(OnFrontier::perhaps);
    std::string text = on.empty() ? "The intervals leave no configuration on the frontier for certain."
                                  : fmt::format(
                                        "On the Pareto frontier, where no other configuration is at least as "
                                        "good in both figures and better in one: {}.",
                                        joined(on));
    if (!perhaps.empty()) text += fmt::format(" Perhaps on it, by the intervals: {}.", joined(perhaps));
    if (!names(OnFrontier::no).empty())
      text +=
          " Hollow marks are beaten: another configuration is at least as good in both figures and better in "
          "one.";
    return text;
  }

  const ResultSet& results_;
  std::vector<Candidate> candidates_;
  std::vector<OnFrontier> places_;
  const Metric *x_, *y_;
};

// What quality is told by, and what the baseline has of it by definition.
struct Quality {
  std::string_view tag;
  double of_baseline;
  const char* head;
};
constexpr Quality kQualities[] = {{"kl_mean", 0, "KL divergence from the baseline (nats/token)"},
                                  {"perplexity_ratio", 1, "Perplexity ratio to the baseline"}};

const Value* quality_of(const ResultSet& results, const Row& row, std::string_view tag) {
  if (const Value* own = row.find(tag)) return own;
  for (const Row& other : results.rows)
    if (other.scenario == Scenario::perplexity && other.label == row.label && other.status == RowStatus::ok)
      if (const Value* value = other.find(tag)) return value;
  return nullptr;
}

// The rows of the trade-off with the figure across; the one up is the quality, or a metric of the row.
std::vector<Candidate> candidates_of(const ResultSet& results, std::string_view x, const Quality& quality) {
  std::vector<Candidate> all;
  const Row* baseline = nullptr;
  for (const Row& row : results.rows) {
    if (row.scenario != Scenario::tradeoff || row.status != RowStatus::ok) continue;
    if (baseline == nullptr) baseline = &row;
    const Value *across = row.find(x), *up = quality_of(results, row, quality.tag);
    if (across == nullptr) continue;
    if (up != nullptr)
      all.push_back({&row, *across, *up});
    else if (&row == baseline)
      all.push_back({&row, *across, Value{quality.of_baseline, {}, {}}});
  }
  return all;
}

}  // namespace

std::vector<std::pair<std::string, Plot>> frontier_figures(const ResultSet& results) {
  std::vector<std::pair<std::string, Plot>> figures;
  const auto add = [&](const char* name, const char* title, std::string_view x, const Quality& quality) {
    std::vector<Candidate> found = candidates_of(results, x, quality);
    if (found.size() < 2) return;
    Plot plot = FrontierFigure(results, std::move(found), &metric(x), find_metric(quality.tag)).plot(title);
    plot.x_label = metric(x).column_head();
    plot.y_label = quality.head;
    figures.emplace_back(name, std::move(plot));
  };
  for (const Quality& quality : kQualities) {
    add("quality_by_memory", "Quality against memory of the weights", kMemory, quality);
    add("quality_by_decode", "Quality against decode latency", kDecode, quality);
    if (!figures.empty()) return figures;
  }
  // A row of its own quality alone is the baseline.
  std::vector<Candidate> found;
  for (const Row* row : rows_with(results, Scenario::tradeoff, kMemory))
    if (const Value* latency = row->find(kLatencyTag)) found.push_back({row, *row->find(kMemory), *latency});
  if (found.size() < 2) return figures;
  Plot plot = FrontierFigure(results, std::move(found), &metric(kMemory), &metric(kLatencyTag))
                  .plot("Latency against memory of the weights");
  plot.x_label = metric(kMemory).column_head();
  plot.y_label = metric(kLatencyTag).column_head();
  figures.emplace_back("latency_by_memory", std::move(plot));
  return figures;
}

}  // namespace assay::report

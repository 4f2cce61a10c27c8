#include "assay/report/configuration_figures.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "assay/base/format.h"
#include "assay/report/digits.h"
#include "assay/report/figure_points.h"
#include "assay/report/text_layout.h"

namespace assay::report {

namespace {

double number_of(const Row& row, std::string_view tag) {
  const Value* value = row.find(tag);
  return value == nullptr ? 0 : value->value;
}

// The value below which a share of the sorted samples lies, interpolated between neighbours.
double percentile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// How long each decode step took: those are the spans of the second lane.
std::vector<double> lengths_of(const std::vector<PlotSpan>& spans) {
  std::vector<double> lengths;
  for (const PlotSpan& span : spans)
    if (span.lane == 1) lengths.push_back(span.to - span.from);
  return lengths;
}

class ConfigurationFigures {
 public:
  explicit ConfigurationFigures(const ResultSet& results)
      : results_(results), model_(cut_to_width(terminal_text(results.model.id), 40)) {}

  std::vector<std::pair<std::string, Plot>> run() {
    add_roofline();
    add_memory();
    add_steps();
    add_phases();
    return std::move(figures_);
  }

 private:
  static double intensity_of(const Row& row) {
    return number_of(row, "flops_per_token") / number_of(row, "bytes_per_token");
  }
  static bool has_roofline(const Row& row) {
    return row.status == RowStatus::ok && number_of(row, "flops_per_token") > 0 &&
           number_of(row, "bytes_per_token") > 0 && number_of(row, "achieved_gflops") > 0;
  }

  PlotPoint roofline_point(const Row& row) const {
    const Value& rate = *row.find("achieved_gflops");
    PlotPoint point = point_of(results_, row, intensity_of(row), rate, metric("achieved_gflops"));
    point.text = fmt::format("{}, {}: {} at {:.3g} FLOP/B", info_of(row.scenario).title,
                             one_line(row.label, 60), shown_value(rate, metric("achieved_gflops")), point.x);
    if (const Value* share = row.find("percent_of_roofline"))
      point.text += fmt::format(", {:.0f} % of its roofline", share->value);
    return point;
  }

  // Bandwidth times intensity up to the FLOP rate, from `low` to `high`.
  static PlotSeries roof_of(const Row& row, double low, double high) {
    const double bandwidth = number_of(row, "roofline_gb_s"), rate = number_of(row, "roofline_gflops");
    PlotSeries roofline{"roofline of " + one_line(row.label, 20), {{low, bandwidth * low}}};
    roofline.has_marks = false;
    if (rate <= 0) {
      roofline.points.push_back({high, bandwidth * high});
      return roofline;
    }
    const double ridge = rate / bandwidth;
    if (ridge > low && ridge < high) roofline.points.push_back({ridge, rate});
    roofline.points.front().y = std::min(roofline.points.front().y, rate);
    roofline.points.push_back({high, std::min(bandwidth * high, rate)});
    return roofline;
  }

  void add_roofline() {
    constexpr Scenario kShown[] = {Scenario::tradeoff, Scenario::precisions, Scenario::batches,
                                   Scenario::lengths, Scenario::bench};
    Plot plot{.title = "Attained FLOP rate beside the roofline",
              .subtitle = model_ + "; the roofline was measured between the runs",
              .x_label = "FLOPs per byte of weights, keys and values",
              .y_label = "FLOP rate (GFLOP/s)"};
    plot.is_log_x = plot.is_log_y = true;
    const Row *base = nullptr, *highest = nullptr;
    double low = INFINITY, high = 0;
    for (const Scenario scenario : kShown) {
      PlotSeries series{std::string(info_of(scenario).title), {}, false};
      for (const Row* row : rows_with(results_, scenario, "achieved_gflops")) {
        if (!has_roofline(*row)) continue;
        series.points.push_back(roofline_point(*row));
        low = std::min(low, series.points.back().x);
        high = std::max(high, series.points.back().x);
        if (number_of(*row, "roofline_gb_s") <= 0) continue;
        if (base == nullptr) base = row;
        if (highest == nullptr || number_of(*row, "roofline_gflops") > number_of(*highest, "roofline_gflops"))
          highest = row;
      }
      if (!series.points.empty()) plot.series.push_back(std::move(series));
    }
    if (base == nullptr) return;
    const double ridge = number_of(*highest, "roofline_gflops") / number_of(*highest, "roofline_gb_s");
    low /= 2;
    high = std::max(high * 2, ridge * 3);
    plot.series.push_back(roof_of(*base, low, high));
    constexpr double kHigher = 1.1;  // by less, two lines could not be told apart
    if (number_of(*highest, "roofline_gflops") > kHigher * number_of(*base, "roofline_gflops"))
      plot.series.push_back(roof_of(*highest, low, high));
    plot.caption =
        "A case below the slope is limited by memory bandwidth, one below the level part by arithmetic. The "
        "distance "
        "to the roofline is what a faster program could gain. Each configuration has a roofline of its own, "
        "since "
        "its weights may fit a cache and its kernels multiply at another rate; those drawn are the "
        "baseline's and "
        "the highest.";
    figures_.emplace_back("roofline", std::move(plot));
  }

  void add_memory() {
    const std::vector<const Row*> rows = rows_with(results_, Scenario::tradeoff, "resident_weights_bytes");
    if (rows.empty()) return;
    constexpr double kMebi = 1024 * 1024;
    constexpr std::array<std::pair<const char*, const char*>, 3> kCauses = {
        {{"weights", "resident_weights_bytes"},
         {"KV cache", "kv_cache_bytes"},
         {"workspace", "workspace_bytes"}}};
    Plot plot{.title = "Memory by cause", .subtitle = model_, .x_label = "Memory (MiB), lower is better"};
    plot.form = PlotForm::stacked;
    for (const auto& [name, tag] : kCauses) plot.series.push_back({name, {}});
    plot.series.push_back({"rest of the peak", {}});
    bool has_peak = false;
    for (const Row* row : rows) {
      plot.categories.push_back(one_line(row->label, 60));
      double sum = 0;
      const auto add = [&](std::size_t part, double bytes) {
        PlotPoint point{0, bytes / kMebi};
        point.text = fmt::format("{}: {} {} MiB", plot.categories.back(), plot.series[part].name,
                                 plain_number(point.y));
        point.row = index_of(results_, *row);
        plot.series[part].points.push_back(std::move(point));
        sum += bytes;
      };
      for (std::size_t part = 0; part < kCauses.size(); ++part)
        add(part, number_of(*row, kCauses[part].second));
      const double peak = number_of(*row, "peak_rss_bytes");
      has_peak = has_peak || peak > sum;
      add(kCauses.size(), std::max(0.0, peak - sum));
    }
    if (rows.size() < 2 && !has_peak) return;
    if (has_peak)
      plot.caption =
          "The rest of the peak is the program itself, the tokenizer, and what loading and quantizing needed "
          "for a while.";
    else
      plot.series.pop_back();
    figures_.emplace_back("memory_by_cause", std::move(plot));
  }

  void add_steps() {
    Plot plot{.title = "Distribution of the decode step time",
              .subtitle = model_ + "; box: quartiles and median; whiskers: 5th and 95th percentile",
              .x_label = "Decode step (ms), lower is better"};
    plot.form = PlotForm::boxes;
    for (const Row& row : results_.rows) {
      if (row.scenario != Scenario::tradeoff || row.status != RowStatus::ok) continue;
      std::vector<double> steps;
      for (const std::vector<double>& run : row.step_s)
        for (const double seconds : run) steps.push_back(1e3 * seconds);
      if (steps.empty()) continue;
      std::sort(steps.begin(), steps.end());
      PlotBox box{percentile(steps, 0.05), percentile(steps, 0.25), percentile(steps, 0.5),
                  percentile(steps, 0.75), percentile(steps, 0.95)};
      plot.categories.push_back(one_line(row.label, 60));
      box.text =
          fmt::format("{}: median {} ms, quartiles {} and {}, 5th to 95th percentile {} to {}, n = {}",
                      plot.categories.back(), plain_number(box.median), plain_number(box.first),
                      plain_number(box.third), plain_number(box.low), plain_number(box.high), steps.size());
      box.row = index_of(results_, row);
      plot.boxes.push_back(std::move(box));
    }
    if (!plot.boxes.empty()) figures_.emplace_back("step_distribution", std::move(plot));
  }

  // The row whose phases are shown: the baseline's first that was timed step by step.
  const Row* phases_row() const {
    for (const Scenario scenario : {Scenario::baseline, Scenario::tradeoff})
      for (const Row* row : rows_with(results_, scenario, "prefill_latency_s"))
        if (!row->step_s.empty() && !row->step_s.front().empty() && number_of(*row, "prefill_latency_s") > 0)
          return row;
    return nullptr;
  }

  void add_phases() {
    const Row* row = phases_row();
    if (row == nullptr) return;
    const double prefill_ms = 1e3 * number_of(*row, "prefill_latency_s");
    Plot plot{.title = "Prefill and decode to scale",
              .subtitle = fmt::format("{}, {}; each decode step is the median over the runs", model_,
                                      one_line(row->label, 60)),
              .x_label = "Time since the first step began (ms)"};
    plot.form = PlotForm::spans;
    plot.categories = {"prefill", "decode"};
    const double tokens = number_of(*row, "prompt_tokens");
    plot.spans.push_back(
        {0, 0, prefill_ms, fmt::format("prefill of {:.0f} tokens: {} ms", tokens, plain_number(prefill_ms))});
    double at = prefill_ms;
    const std::size_t steps = row->step_s.front().size();
    for (std::size_t step = 0; step < steps; ++step) {
      std::vector<double> all;
      for (const std::vector<double>& run : row->step_s)
        if (step < run.size()) all.push_back(1e3 * run[step]);
      const double ms = statistics::median(all);
      plot.spans.push_back(
          {1, at, at + ms, fmt::format("decode step {}: {} ms", step + 1, plain_number(ms))});
      at += ms;
    }
    const std::vector<double> drawn = lengths_of(plot.spans);
    plot.caption = fmt::format(
        "Prefill computes all {:.0f} prompt tokens in one step of {:.3g} ms: each weight that is read serves "
        "every token, so that long prompts are limited by arithmetic. Each of the {} decode steps reads all "
        "weights again for a single token, in {:.3g} ms at the median, so that memory bandwidth limits them; "
        "they take {:.0f} % of the time.",
        tokens, prefill_ms, steps, statistics::median(drawn), 100 * (at - prefill_ms) / at);
    if (const Value* tpot = row->find("time_per_output_token_ms"))
      plot.caption += fmt::format(" TPOT is the mean over all steps, slow ones included: {} ms.",
                                  shown_number(tpot->value, tpot->interval));
    figures_.emplace_back("phases", std::move(plot));
  }

  const ResultSet& results_;
  const std::string model_;
  std::vector<std::pair<std::string, Plot>> figures_;
};

}  // namespace

std::vector<std::pair<std::string, Plot>> configuration_figures(const ResultSet& results) {
  return ConfigurationFigures(results).run();
}

}  // namespace assay::report

#include "assay/statistics/replicates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "assay/base/random.h"

namespace assay::statistics {

namespace {

// The regularized incomplete beta function by its continued fraction (Lentz's method, as in DLMF 8.17.22).
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  // The fraction converges fast below the mean alone.
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(b, a, 1 - x);
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x)) /
      a;
  constexpr double kTiny = 1e-300;
  const auto not_zero = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / not_zero(1 - (a + b) * x / (a + 1)), sum = d;
  for (int m = 1; m < 500; ++m) {
    const double n = m;
    const double even = n * (b - n) * x / ((a + 2 * n - 1) * (a + 2 * n));
    d = 1 / not_zero(1 + even * d);
    c = not_zero(1 + even / c);
    sum *= d * c;
    const double odd = -(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 2 * n + 1));
    d = 1 / not_zero(1 + odd * d);
    c = not_zero(1 + odd / c);
    const double step = d * c;
    sum *= step;
    if (std::abs(step - 1) < 1e-15) break;
  }
  return front * sum;
}

// The first two derivatives of log gamma: upwards by their recurrence, then by their asymptotic series.
double digamma(double x) {
  double sum = 0;
  for (; x < 8; ++x) sum -= 1 / x;
  const double y = 1 / (x * x);
  return sum + std::log(x) - 1 / (2 * x) - y * (1.0 / 12 - y * (1.0 / 120 - y / 252));
}
double trigamma(double x) {
  double sum = 0;
  for (; x < 8; ++x) sum += 1 / (x * x);
  const double y = 1 / (x * x);
  return sum + 1 / x + y / 2 + y / x * (1.0 / 6 - y * (1.0 / 30 - y / 42));
}

// The end of where `is_below` holds, between `low`, where it does, and `high`, to the last digit.
template <typename Condition>
double end_of(const Condition& is_below, double low, double high) {
  for (;;) {
    const double middle = (low + high) / 2;
    if (middle <= low || middle >= high) return high;
    (is_below(middle) ? low : high) = middle;
  }
}

double normal_below(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}

// What an estimated standard deviation is of the true one, with its weight: chi / sqrt(degrees).
struct Weighted {
  double factor, weight;
};
std::vector<Weighted> estimates_of_one(double degrees) {
  constexpr int kSteps = 64;
  constexpr double kWidest = 4;
  std::vector<Weighted> all;
  double sum = 0;
  for (int i = 0; i < kSteps; ++i) {
    const double s = (i + 0.5) * kWidest / kSteps;
    const double weight = std::exp((degrees - 1) * std::log(s) - degrees * s * s / 2 + degrees / 2);
    all.push_back({s, weight});
    sum += weight;
  }
  for (Weighted& w : all) w.weight /= sum;
  return all;
}

double normal(Random& random) {
  const double u = 1 - random.uniform(), v = random.uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v);
}

// Chi squared / degrees at a normal deviate (Wilson and Hilferty 1931).
double chi_squared_share(double deviate, double degrees) {
  const double v = 2 / (9 * degrees), root = std::max(0.05, 1 - v + deviate * std::sqrt(v));
  return root * root * root;
}

// The same draws for every question, so that more replicates never seem to resolve less.
struct Draw {
  double deviation, effect, estimate, half;
};
const std::vector<Draw>& draws() {
  static const std::vector<Draw> all = [] {
    Random random(1);
    std::vector<Draw> made(400);
    for (Draw& d : made) d = {normal(random), normal(random), normal(random), normal(random)};
    return made;
  }();
  return all;
}

}  // namespace

double student_t_tail(double t, double degrees) {
  return incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t));
}

double student_t_quantile(double level, double degrees) {
  constexpr double kFarthest = 1e12;
  return end_of([&](double t) { return student_t_tail(t, degrees) > 1 - level; }, 0, kFarthest);
}

Interval Effect::interval(double level) const {
  const double half = error == 0 ? 0 : student_t_quantile(level, degrees) * error;
  return {estimate - half, estimate + half, level};
}

double Effect::p_value() const {
  if (error == 0) return estimate == 0 ? 1 : 0;
  return student_t_tail(estimate / error, degrees);
}

std::optional<Effect> effect_of(std::span<const double> replicates) {
  const std::optional<double> deviation = standard_deviation(replicates);
  if (!deviation) return std::nullopt;
  const auto n = static_cast<double>(replicates.size());
  return Effect{mean(replicates), *deviation / std::sqrt(n), n - 1, replicates.size()};
}

std::optional<Effect> difference_of(std::span<const double> a, std::span<const double> b) {
  const std::optional<Effect> of_a = effect_of(a), of_b = effect_of(b);
  if (!of_a || !of_b) return std::nullopt;
  const double va = of_a->error * of_a->error, vb = of_b->error * of_b->error;
  const double sum = va + vb;
  const double degrees = sum == 0 ? of_a->degrees + of_b->degrees
                                  : sum * sum / (va * va / of_a->degrees + vb * vb / of_b->degrees);
  return Effect{of_b->estimate - of_a->estimate, std::sqrt(sum), degrees, std::min(a.size(), b.size())};
}

std::vector<double> block_means(std::span<const double> in_order, std::int64_t block) {
  const auto n = static_cast<std::int64_t>(in_order.size());
  const std::int64_t blocks = block < 1 ? 0 : n / block;
  if (blocks < 2) return {};
  std::vector<double> means;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::int64_t begin = i * n / blocks, end = (i + 1) * n / blocks;
    means.push_back(
        mean(in_order.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin))));
  }
  return means;
}

VariancePrior variance_prior(std::span<const EstimatedVariance> estimates) {
  std::vector<double> logs, by_chance;
  for (const auto& [variance, degrees] : estimates) {
    if (variance <= 0) continue;
    logs.push_back(std::log(variance) - digamma(degrees / 2) + std::log(degrees / 2));
    by_chance.push_back(trigamma(degrees / 2));
  }
  if (logs.size() < kMinForInterval) return {};
  // How much the estimates differ beyond what their own degrees explain.
  const double deviation = *standard_deviation(logs);
  const double beyond = deviation * deviation - mean(by_chance);
  VariancePrior prior;
  prior.degrees = kMaxPriorDegrees;
  if (beyond > trigamma(kMaxPriorDegrees / 2))
    prior.degrees =
        end_of([&](double degrees) { return trigamma(degrees / 2) > beyond; }, 1e-3, kMaxPriorDegrees);
  // At the limit the variances are taken for equal, however many degrees that would be worth.
  const double of_prior =
      prior.degrees == kMaxPriorDegrees ? 0 : digamma(prior.degrees / 2) - std::log(prior.degrees / 2);
  prior.variance = std::exp(mean(logs) + of_prior);
  return prior;
}

Effect with_prior(Effect effect, const VariancePrior& prior) {
  if (prior.degrees <= 0) return effect;
  const auto n = static_cast<double>(effect.replicates);
  const double own = effect.error * effect.error * n;
  const double all = prior.degrees + effect.degrees;
  effect.error = std::sqrt((prior.degrees * prior.variance + effect.degrees * own) / all / n);
  effect.degrees = all;
  return effect;
}

std::vector<double> row_variances(std::span<const std::vector<double>> rows) {
  if (rows.size() < 3 || rows.front().size() < 2) return {};
  const std::size_t columns = rows.front().size();
  const auto k = static_cast<double>(rows.size());
  std::vector<std::vector<double>> centred(rows.begin(), rows.end());
  std::vector<double> of_column(columns);
  for (std::vector<double>& row : centred) {
    const double center = mean(row);
    for (std::size_t i = 0; i < columns; ++i) of_column[i] += (row[i] -= center) / k;
  }
  std::vector<double> variances;
  for (const std::vector<double>& row : centred) {
    double squares = 0;
    for (std::size_t i = 0; i < columns; ++i) squares += (row[i] - of_column[i]) * (row[i] - of_column[i]);
    variances.push_back(squares / (static_cast<double>(columns - 1) * (1 - 1 / k)));
  }
  return variances;
}

std::vector<int> holm_divisors(std::span<const double> p_values, double error_level) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  std::vector<int> divisors(p_values.size());
  int divisor = static_cast<int>(p_values.size());
  bool is_rejecting = true;
  for (const std::size_t i : order) {
    divisors[i] = divisor;
    is_rejecting = is_rejecting && p_values[i] <= error_level / divisor;
    if (is_rejecting) --divisor;
  }
  return divisors;
}

std::vector<char> hochberg_rejections(std::span<const double> p_values, double error_level) {
  std::vector<double> ascending(p_values.begin(), p_values.end());
  std::sort(ascending.begin(), ascending.end());
  double highest = -1;  // that is rejected
  for (std::size_t i = 0; i < ascending.size(); ++i)
    if (ascending[i] <= error_level / static_cast<double>(ascending.size() - i)) highest = ascending[i];
  std::vector<char> is_rejected;
  for (const double p : p_values) is_rejected.push_back(p <= highest ? 1 : 0);
  return is_rejected;
}

std::optional<Spread> spread_of(std::span<const std::vector<double>> repeats) {
  std::vector<double> medians;
  double squares = 0, degrees = 0, shares = 0;
  for (const std::vector<double>& own : repeats) {
    if (own.empty()) continue;
    medians.push_back(median(own));
    shares += 1 / static_cast<double>(own.size());
    const double center = mean(own);
    for (const double x : own) squares += (x - center) * (x - center);
    degrees += static_cast<double>(own.size() - 1);
  }
  if (medians.size() < 2 || degrees < 1) return std::nullopt;
  const double within = squares / degrees, all = *standard_deviation(medians);
  // The variance of a median of normal repeats is pi / 2 times that of their mean, less for few of them.
  constexpr double kMedian = 1.35;
  const double explained = kMedian * within * shares / static_cast<double>(medians.size());
  return Spread{std::sqrt(std::max(0.0, all * all - explained)), std::sqrt(within)};
}

namespace {

// In errors as they were estimated.
double detectable_errors(double degrees, double level, double power) {
  const double critical = student_t_quantile(level, degrees);
  const auto estimates = estimates_of_one(degrees);
  const auto is_below = [&](double distance) {
    double sum = 0;
    for (const Weighted& u : estimates) {
      if (u.weight < 1e-7) continue;
      for (const Weighted& v : estimates)
        if (v.weight >= 1e-7)
          sum += u.weight * v.weight * normal_below(distance * u.factor - critical * v.factor);
    }
    return sum < power;
  };
  constexpr double kFarthest = 1e6;
  return end_of(is_below, 0, kFarthest);
}

}  // namespace

double detectable_difference(const Effect& like, double level, double power) {
  // Comparisons of a run have the same degrees, and few levels.
  thread_local std::map<std::array<double, 3>, double> known;
  const std::array<double, 3> key{like.degrees, level, power};
  const auto [at, is_new] = known.try_emplace(key, 0);
  if (is_new) at->second = detectable_errors(like.degrees, level, power);
  return at->second * like.error;
}

std::optional<int> replicates_needed(const Effect& first, double margin, double level, int most,
                                     double power) {
  const auto now = static_cast<double>(first.replicates);
  const double deviation = first.error * std::sqrt(now);
  const double of_prior = first.degrees - (now - 1);  // which a new comparison has too
  const auto is_enough = [&](int replicates) {
    const auto n = static_cast<double>(replicates);
    const double degrees = n - 1 + of_prior, critical = student_t_quantile(level, degrees);
    int resolved = 0;
    for (const Draw& draw : draws()) {
      // What the true deviation and effect may be after what was seen, and what a new comparison may show.
      const double truth = deviation / std::sqrt(chi_squared_share(draw.deviation, first.degrees));
      const double effect = first.estimate + truth / std::sqrt(now) * draw.effect;
      const double estimate = effect + truth / std::sqrt(n) * draw.estimate;
      const double half = critical * truth * std::sqrt(chi_squared_share(draw.half, degrees) / n);
      resolved += std::abs(estimate) > half || std::abs(estimate) + half < margin ? 1 : 0;
    }
    return resolved >= power * static_cast<double>(draws().size());
  };
  if (first.replicates < 2 || !is_enough(most)) return std::nullopt;
  int low = 2, high = most;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (is_enough(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}

}  // namespace assay::statistics

#include "assay/statistics/replicates.h"

#include <algorithm>
#include <cmath>
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

double normal_below(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}

// What an estimated standard deviation is of the true one, with its weight: chi / sqrt(degrees).
struct Weighted {
  double factor, weight;
};
std::vector<Weighted> estimates_of_one(double degrees) {
  constexpr int kSteps = 160;
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

// A draw of chi squared / degrees: the sum of squares for few degrees, Wilson and Hilferty's for many.
double chi_squared_share(Random& random, double degrees) {
  constexpr double kFew = 12;
  if (degrees < kFew) {
    const auto whole = static_cast<int>(std::max(1.0, std::round(degrees)));
    double sum = 0;
    for (int i = 0; i < whole; ++i) {
      const double z = normal(random);
      sum += z * z;
    }
    return sum / whole;
  }
  const double v = 2 / (9 * degrees), root = 1 - v + normal(random) * std::sqrt(v);
  return root * root * root;
}

}  // namespace

double student_t_tail(double t, double degrees) {
  return incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t));
}

double student_t_quantile(double level, double degrees) {
  double low = 0, high = 1;
  while (student_t_tail(high, degrees) > 1 - level && high < 1e12) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (student_t_tail(middle, degrees) > 1 - level ? low : high) = middle;
  }
  return high;
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
  std::vector<double> means;
  if (blocks < 2) return means;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::int64_t begin = i * n / blocks, end = (i + 1) * n / blocks;
    means.push_back(
        mean(in_order.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin))));
  }
  return means;
}

std::vector<int> holm_divisors(std::span<const double> p_values, double error_level) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  std::vector<int> divisors(p_values.size(), 1);
  int divisor = static_cast<int>(p_values.size());
  bool is_rejecting = true;
  for (const std::size_t i : order) {
    divisors[i] = divisor;
    is_rejecting = is_rejecting && p_values[i] <= error_level / divisor;
    if (is_rejecting && divisor > 1) --divisor;
  }
  return divisors;
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

std::optional<double> detectable_difference(double deviation, double degrees, int replicates, double level,
                                            double power) {
  if (replicates < 2 || degrees <= 0) return std::nullopt;
  const double critical = student_t_quantile(level, replicates - 1);
  const auto first = estimates_of_one(degrees), second = estimates_of_one(replicates - 1);
  const auto chance = [&](double distance) {
    double sum = 0;
    for (const Weighted& u : first) {
      if (u.weight < 1e-9) continue;
      for (const Weighted& v : second)
        if (v.weight >= 1e-9)
          sum += u.weight * v.weight * normal_below(distance * u.factor - critical * v.factor);
    }
    return sum;
  };
  double low = 0, high = 1;  // in standard errors of the estimated deviation
  while (chance(high) < power && high < 1e6) high *= 2;
  for (int i = 0; i < 30; ++i) {
    const double middle = (low + high) / 2;
    (chance(middle) < power ? low : high) = middle;
  }
  return high * deviation / std::sqrt(static_cast<double>(replicates));
}

std::optional<int> replicates_needed(const Effect& first, double margin, double level, int most,
                                     double power) {
  const auto now = static_cast<double>(first.replicates);
  const double deviation = first.error * std::sqrt(now);
  constexpr int kDraws = 400;
  const auto is_enough = [&](int replicates) {
    const auto n = static_cast<double>(replicates);
    const double critical = student_t_quantile(level, n - 1);
    Random random(1);
    int resolved = 0;
    for (int i = 0; i < kDraws; ++i) {
      // What the true deviation and effect may be after what was seen, and what a new comparison may show.
      const double true_deviation = deviation / std::sqrt(chi_squared_share(random, first.degrees));
      const double effect = first.estimate + true_deviation / std::sqrt(now) * normal(random);
      const double estimate = effect + true_deviation / std::sqrt(n) * normal(random);
      const double half = critical * true_deviation * std::sqrt(chi_squared_share(random, n - 1) / n);
      resolved += std::abs(estimate) > half || std::abs(estimate) + half < margin ? 1 : 0;
    }
    return resolved >= power * kDraws;
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

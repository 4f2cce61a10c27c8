// Constants that depend on the processor and change no bit, measured on this machine.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/backend/cpu/kernels/kernels.h"
#include "assay/backend/cpu/run/tasks.h"
#include "assay/base/cpu.h"
#include "assay/base/thread_pool.h"
#include "assay/base/units.h"

namespace assay::cpu {

struct Constants {
  WeightFetch fetch = {};
  std::int64_t share_rows = kUsualShareRows;
  bool operator==(const Constants&) const = default;
};

// What nobody has measured here: as it was found best on a processor of the same maker.
Constants usual_constants();

// Those that kernels and tasks use. Set while nothing runs; what is set already is not written again, so that
// programs that run beside each other in one process may set the same.
Constants constants();
void set_constants(const Constants& now);

// "1536 bytes ahead into the second-level cache"
std::string text_of(const WeightFetch& fetch);
// "weights 1536 bytes ahead into the second-level cache; 256 rows a share"
std::string text_of(const Constants& constants);

// What is chosen one after another, by the work that depends on it: how weights are fetched by matrix
// multiplications of a single row, that read more than the caches hold; the rows of a share by those of 512
// rows.
enum class Choice { fetch, share_rows };
inline constexpr Choice kChoices[] = {Choice::fetch, Choice::share_rows};
// What may be chosen instead of `now`, which is the first; those that come to the same are left out.
std::vector<Constants> candidates_of(Choice choice, const Constants& now, int threads);

struct Tuning {
  Constants constants = {};
  // The usual ones' time over their own, geometric mean over formats; 1 where they are the usual ones.
  double gain = 1;            // of a single row
  double many_rows_gain = 1;  // of 512 rows
  bool is_measured = false;   // or read from where it was; otherwise memory or time was not to be had
  bool is_disturbed = false;  // measured, but beside others on the same processors: nothing was learned
  Seconds took = {};          // to measure
};

// Times of matrix multiplications: [format][round], of one candidate.
using CandidateTimes = std::vector<std::vector<double>>;
// The first one's time over the other's, of medians over rounds: the geometric mean over formats, and the
// least of a format.
double gain_over(const CandidateTimes& first, const CandidateTimes& other);
double least_gain_over(const CandidateTimes& first, const CandidateTimes& other);

// The candidate of the highest gain over the first; `again`, of the first and of that one once more, says
// whether it is better: the first stays where the gain is less than 3 % or a format loses 1 %.
std::size_t best_of(std::span<const CandidateTimes> times);
bool is_better(const CandidateTimes& first_again, const CandidateTimes& best_again);

// Measures the candidates of each choice in turns on the pool's threads, for `at_most` at most in all; the
// best of each is measured once more beside the one before. Needs 145 MB meanwhile; where twice as many, or
// the time for three rounds, cannot be had, or where other programs run on the same processors, the usual
// ones stay. The constants in use are as they were before.
Tuning measure_tuning(const KernelTable& table, ThreadPool& pool, Seconds at_most = {0.27},
                      const Constants& usual = usual_constants());

// The file that keeps what was measured, by processor, microcode, kernels, threads and version of the
// program: $XDG_CACHE_HOME/assay/tuning.json, else ~/.cache/assay/tuning.json; empty where neither is named.
std::string tuning_file();
// What the file says of this machine; none where it says nothing that can be read.
std::optional<Tuning> kept_tuning(const std::string& file, Isa isa, int threads);
// Adds it to the file. Nothing happens where that cannot be written.
void keep_tuning(const std::string& file, Isa isa, int threads, const Tuning& tuning);
// What it is kept by.
std::string tuning_key(const CpuInfo& cpu, std::string_view version, Isa isa, int threads);

// Constants that whoever started this process has chosen: what use_tuning sets, unless it is `off`.
void give_constants(const Constants& given);

// Sets the constants for the kernels of a tier: as the file has them; where it has nothing, or where `tune`
// is `force`, as measured now, which happens once in a process.
Tuning use_tuning(Tune tune, Isa isa, const KernelTable& table, ThreadPool& pool);

}  // namespace assay::cpu

// Constants that depend on the processor and change no bit, measured on this machine.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/backend/cpu/kernels.h"
#include "assay/base/cpu.h"
#include "assay/base/thread_pool.h"
#include "assay/base/units.h"

namespace assay::cpu {

// What nobody has measured here: as it was found best on a processor of the same maker.
WeightFetch usual_weight_fetch();

// The usual one first.
std::vector<WeightFetch> weight_fetch_candidates(const WeightFetch& usual = usual_weight_fetch());

// "1536 bytes ahead into the second-level cache"
std::string text_of(const WeightFetch& fetch);

struct Tuning {
  WeightFetch fetch = {};
  double gain = 1;  // the usual one's time over its own, geometric mean over formats; 1 where it is the usual
  bool is_measured = false;  // or read from where it was; otherwise memory or time was not to be had
  Seconds took = {};         // to measure
};

// Times of single-row matrix multiplications that read more than the caches hold: [format][round], of one
// candidate.
using FetchTimes = std::vector<std::vector<double>>;
// The usual one's time over the other's, of medians over rounds: the geometric mean over formats, and the
// least of a format.
double gain_over(const FetchTimes& usual, const FetchTimes& other);
double least_gain_over(const FetchTimes& usual, const FetchTimes& other);

// The candidate of the highest gain over the first, which is the usual one; `again`, of the usual and of that
// one once more, says whether it is better: the usual stays where the gain is less than 3 % or a format loses
// 1 %.
std::size_t best_of(std::span<const FetchTimes> times);
bool is_better(const FetchTimes& usual_again, const FetchTimes& best_again);

// Measures the candidates in turns on the pool's threads, for `at_most` at most; the best is measured once
// more beside the usual one. Needs 136 MB meanwhile; where they, or the time for three rounds, cannot be had
// the usual one stays. `weight_fetch` is as it was before.
Tuning measure_tuning(const KernelTable& table, ThreadPool& pool, Seconds at_most = {0.25},
                      const WeightFetch& usual = usual_weight_fetch());

// The file that keeps what was measured, by processor, microcode, kernels, threads and version of the
// program: $XDG_CACHE_HOME/assay/tuning.json, else ~/.cache/assay/tuning.json; empty where neither is named.
std::string tuning_file();
// What the file says of this machine; none where it says nothing that can be read.
std::optional<Tuning> kept_tuning(const std::string& file, Isa isa, int threads);
// Adds it to the file. Nothing happens where that cannot be written.
void keep_tuning(const std::string& file, Isa isa, int threads, const Tuning& tuning);
// What it is kept by.
std::string tuning_key(const CpuInfo& cpu, std::string_view version, Isa isa, int threads);

// Sets `weight_fetch` for the kernels of a tier: as the file has it; where it has nothing, or where `tune` is
// `force`, as measured now, which happens once in a process.
Tuning use_tuning(Tune tune, Isa isa, const KernelTable& table, ThreadPool& pool);

}  // namespace assay::cpu

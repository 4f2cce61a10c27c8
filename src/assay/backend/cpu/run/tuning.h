// Constants that depend on the processor and change no bit, measured on this machine.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/backend/constants.h"
#include "assay/backend/cpu/kernels/kernels.h"
#include "assay/backend/cpu/run/tasks.h"
#include "assay/base/cpu.h"
#include "assay/base/thread_pool.h"
#include "assay/base/units.h"

namespace assay::cpu {

// What is chosen one after another, by the work that depends on it: how weights are fetched by matrix
// multiplications of a single row, that read more than the caches hold, and apart from them GGUF's block
// types beside int8 activations; the rows of a share by those of 512 rows.
enum class Choice { fetch, grouped_fetch, share_rows };
inline constexpr Choice kChoices[] = {Choice::fetch, Choice::grouped_fetch, Choice::share_rows};
// What may be chosen instead of `now`, which is the first; those that come to the same are left out.
std::vector<KernelConstants> candidates_of(Choice choice, const KernelConstants& now, int threads);

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

// Measures the candidates of each choice in turns on the pool's threads, for `at_most` at most in all once
// its memory is there; the best of each is measured once more beside the one before. Needs 200 MB meanwhile;
// where twice as many, or the time for three rounds, cannot be had, or where other programs run on the same
// processors, the usual ones stay.
Tuning measure_tuning(const KernelTable& table, ThreadPool& pool, Seconds at_most = {0.35},
                      const KernelConstants& usual = usual_constants());

// The file that keeps what was measured, by processor, microcode, kernels, threads and version of the
// program: $XDG_CACHE_HOME/assay/tuning.json, else ~/.cache/assay/tuning.json; empty where neither is named.
std::string tuning_file();
// What the file says of this machine; none where it says nothing that can be read.
std::optional<Tuning> kept_tuning(const std::string& file, Isa isa, int threads);
// Adds it to the file. Nothing happens where that cannot be written.
void keep_tuning(const std::string& file, Isa isa, int threads, const Tuning& tuning);
// The same of the text of such a file, and that text with another entry; neither reads or writes a file. A
// text that cannot be read, or has too many entries, keeps nothing.
std::optional<Tuning> tuning_in(std::string_view text, const std::string& key);
std::string with_tuning(std::string_view text, const std::string& key, const Tuning& tuning);
// What it is kept by.
std::string tuning_key(const CpuInfo& cpu, std::string_view version, Isa isa, int threads);

// What a backend of these kernels and threads takes: as the file has it; where it has nothing, or where
// `tune` is `force`, as measured now, which happens once in a process. The usual ones where it is `off`.
Tuning find_tuning(Tune tune, Isa isa, const KernelTable& table, ThreadPool& pool);

}  // namespace assay::cpu

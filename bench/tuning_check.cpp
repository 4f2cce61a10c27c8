// What tuning finds on this machine where each of its candidates in turn is taken for the usual one: as on a
// processor that the constants were not made for.
#include <cstdio>
#include <cstdlib>

#include "assay/backend/cpu/kernels/select.h"
#include "assay/backend/cpu/run/tuning.h"
#include "assay/base/error.h"
#include "assay/base/format.h"

int main(int argc, char** argv) {
  using namespace assay;
  const int times = argc > 1 ? std::atoi(argv[1]) : 5;
  try {
    const Isa isa = best_usable_isa();
    const cpu::KernelTable table = cpu::select_kernels(isa);
    ThreadPool pool(default_thread_count());
    fmt::print("{}, {}, {} threads\n", cpu_info().model, name_of(isa), pool.size());
    for (const cpu::Choice choice : cpu::kChoices)
      for (const KernelConstants& usual : cpu::candidates_of(choice, usual_constants(), pool.size()))
        for (int i = 0; i < times; ++i) {
          const Tuning tuning = cpu::measure_tuning(table, pool, {0.3}, usual);
          fmt::print("{}\n  -> {}\n  {:.2f}x, GGUF's {:.2f}x, many rows {:.2f}x in {:.0f} ms\n",
                     text_of(usual), text_of(tuning.constants), tuning.gain, tuning.grouped_gain,
                     tuning.many_rows_gain, 1e3 * tuning.took.value);
        }
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
